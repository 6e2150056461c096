"""The command tree. Importing this module loads typer and nothing heavy: the start is part of the product."""

from typing import Annotated

import typer

from trnctl import __version__
from trnctl.cli import (
    alloc,
    cache,
    cluster,
    cost,
    doctor,
    health,
    image,
    init,
    logs,
    network,
    parallel,
    plan,
    run_local,
    sandbox,
    status,
    study,
    submit,
    sync,
    teardown,
    top,
    why,
    workloads,
)
from trnctl.cli.session import Session, say_more

app = typer.Typer(
    name="trnctl",
    help="From an AWS account to a trained model on a Trn UltraCluster, and back to zero cost.\n\n"
    "A working day: trnctl cluster create · trnctl submit bert-large -N 16 · trnctl status -w · "
    "trnctl logs RUN -f · trnctl teardown",
    epilog="Options of the whole program are accepted before and after the command.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help starts in a third of the time
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.add_typer(network.app, name="network")
app.add_typer(cluster.app, name="cluster")
app.add_typer(image.app, name="image")
app.add_typer(workloads.app, name="workloads")
app.add_typer(cache.app, name="cache")
app.add_typer(parallel.app, name="parallel")
app.add_typer(study.app, name="study")
app.add_typer(sandbox.app, name="sandbox")
for module in (init, doctor, plan, run_local, submit, sync, status, health, why, logs, top, alloc, cost, teardown):
    module.register(app)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"trnctl {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    config: Annotated[
        str | None,
        typer.Option("-c", "--config", metavar="FILE", help="The cluster file (else trnctl.yaml here or above)."),
    ] = None,
    output: Annotated[str, typer.Option("-o", "--output", metavar="table|json", help="How data is printed.")] = "table",
    cluster_name: Annotated[
        str | None, typer.Option("--cluster", metavar="NAME", help="The cluster by name, without a file.")
    ] = None,
    sandbox_: Annotated[
        bool, typer.Option("--sandbox", help="Use the embedded world instead of AWS (or TRNCTL_TARGET=sandbox).")
    ] = False,
    profile: Annotated[str | None, typer.Option("--profile", metavar="NAME", help="The AWS profile.")] = None,
    region: Annotated[str | None, typer.Option("--region", metavar="NAME", help="The AWS region.")] = None,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Tell on stderr what is run and asked.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colour (also by NO_COLOR).")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Take the global options."""
    if output not in {"table", "json"}:
        raise typer.BadParameter(f"{output} is not table or json", param_hint="--output")
    session: Session = context.obj
    session.config, session.cluster, session.sandbox = config, cluster_name, sandbox_
    session.output = "json" if output == "json" else "table"
    session.profile, session.region = profile, region
    session.color = not no_color
    if verbose:
        say_more()
