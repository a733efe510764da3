-- Deletes every key of the run but its objects.
remove_all()
return 1
