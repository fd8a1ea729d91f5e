"""``countermand replay``: record a saga as a bundle, check the code of today against it, run it again."""

from cyclopts import App

replay = App(name="replay")
# Their help stands here, so that the overview need not load them.
for _place, _name, _help in (
    (
        "bundles:record",
        "record",
        """Write a saga's bundle: its histories with every model exchange and every answer of the world.

        It holds the conversation and all arguments in clear: treat it as you treat the histories themselves.

        Example: countermand replay record chat-1a2b3c4d/t2 -o order.json
        """,
    ),
    (
        "bundles:check",
        "check",
        """Lead the code of today through bundles; exits with 1 where it parts from one.

        Compares every activity, child workflow and result with its arguments, in order: so that of compensations, too.

        Example: countermand replay check tests/replay/bundles/*.json
        """,
    ),
    (
        "rerun:rerun",
        "run",
        """Run a bundle's saga again, offline: the model's recorded answers, today's code, a fresh world.

        What was refused or not answered then is so again. Exits with 1 where its steps are not the recorded ones; with
        --fault, by the saga's state. Operations and kinds are those of 'countermand world fault add'.

        Example: countermand replay run order.json --fault dns.register
        """,
    ),
):
    replay.command(f"countermand.cli.{_place}", name=_name, help=_help)
