"""Hooks written in Python."""


class Hook:
    """Something that happens beside the steps of a run. Define the methods that you need:

    begin(session), after_create_session(session), before_run(session), after_run(session), end(session),
    before_evaluation(session), after_evaluation(session, metrics)

    A method that is not there costs nothing. A session is there during the call alone. All calls come in the thread that
    trains or evaluates.
    """
