"""When somebody who is asked again and again has been silent for too long."""

from augury.invoke.embedded.silence import Silence


def test_questions_that_nobody_answers_for_long_enough_are_too_many() -> None:
    silence = Silence(5.0)
    assert [silence.lasts(asked_s, asked_s + 1.0) for asked_s in (10.0, 11.0, 12.0, 13.0, 14.0)] == [False] * 4 + [True]


def test_an_answer_ends_it() -> None:
    silence = Silence(5.0)
    silence.lasts(10.0, 11.0)
    silence.ends()
    assert [silence.lasts(asked_s, asked_s + 1.0) for asked_s in (15.0, 16.0)] == [False, False]


def test_what_was_before_the_first_question_does_not_count() -> None:
    silence = Silence(5.0)
    silence.ends()
    assert [silence.lasts(asked_s, asked_s + 1.0) for asked_s in (1000.0, 1001.0)] == [False, False]


def test_one_question_alone_is_never_too_many() -> None:
    silence = Silence(5.0)
    assert not silence.lasts(10.0, 1000.0)
    assert silence.lasts(1000.0, 1001.0)
