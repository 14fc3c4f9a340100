"""`discoformer landau`: relax a plasma with a plug-in score, against the reference."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

from discoformer.cli.parser import command_parser

__all__ = ["make_parser", "run"]

EXAMPLES = """\
examples:
  discoformer landau                                         Maxwell molecules in 3 dimensions
  discoformer landau --dim 10 --model kde-scott              the same in 10, with a kernel density estimate
  discoformer landau --kernel coulomb --plot coulomb.png     Coulomb collisions, with a picture
  discoformer landau --start two-mode --out history.csv      from two modes, every step in a table
  discoformer landau --particles 20000 --kernel coulomb --checkpoint run.npz
  discoformer landau --particles 20000 --kernel coulomb --checkpoint run.npz --resume
"""

REFERENCE_PARTICLES = 20_000  # of the pair Monte Carlo
FRAMES = 5
DEFAULTS = {"maxwell": (0.01, 400, 0.0), "coulomb": (1.0, 300, -3.0)}  # dt, steps, gamma


def make_parser(name: str) -> argparse.ArgumentParser:
    """Options of the subcommand."""
    parser = command_parser(
        name,
        "Solve the homogeneous Landau equation with particles whose score comes from an oracle.",
        EXAMPLES,
    )
    parser.add_argument("--kernel", choices=DEFAULTS, default="maxwell", help="collisions (default: maxwell)")
    parser.add_argument("--dim", metavar="D", type=int, default=3, help="dimensions (default: 3)")
    parser.add_argument("--particles", metavar="N", type=int, default=500, help="particles (default: 500)")
    parser.add_argument(
        "--model",
        metavar="MODEL",
        default="default",
        help="where scores come from: a model's name or path, kde-scott or another method, or blob, "
        "gaussian, sbtm, sbtm-1 (default: default)",
    )
    parser.add_argument(
        "--start", choices=("gaussian", "two-mode"), default="gaussian", help="(default: gaussian)"
    )
    parser.add_argument("--dt", type=float, help="time step (default: 0.01 for maxwell, 1 for coulomb)")
    parser.add_argument("--steps", type=int, help="time steps (default: 400 for maxwell, 300 for coulomb)")
    parser.add_argument("--scheme", choices=("euler", "heun"), default="euler", help="(default: euler)")
    parser.add_argument(
        "--every",
        metavar="K",
        type=int,
        default=10,
        help="scores per fit of a network, which is carried along in between (default: 10)",
    )
    parser.add_argument(
        "--calibrate",
        action=argparse.BooleanOptionalAction,
        help="correct the score at every step so that Stein's identity holds for the particles "
        "(default: with networks, if the particles are enough: 10 d (2d + 1))",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the start and of sbtm (default: 0)")
    parser.add_argument("--plot", metavar="PNG", type=Path, help="draw the relaxation: png, pdf or svg")
    parser.add_argument("--out", metavar="OUT", type=Path, help="write the history: csv, tsv, npy or parquet")
    parser.add_argument("--checkpoint", metavar="NPZ", type=Path, help="keep the state of a long run here")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    return parser


def run(args: argparse.Namespace) -> None:
    """Start, integrate, compare, draw, write, report; what can be refused early is refused first."""
    import torch

    from discoformer.core.checks import DataError
    from discoformer.data.files import Table, check_output, write_table
    from discoformer.particles import Landau, calibration_pays, integrate, landau_start
    from discoformer.particles.choices import choose_oracle, is_network
    from discoformer.views.panels import check_picture
    from discoformer.views.relaxation import plot_relaxation

    if args.out:
        check_output(args.out)
    if args.plot:
        check_picture(args.plot)
    if args.particles <= args.dim:
        raise DataError(
            f"--particles {args.particles} are too few in {args.dim} dimensions: give at least {args.dim + 1}"
        )
    if args.checkpoint and args.checkpoint.exists() and not args.resume:
        raise DataError(f"{args.checkpoint} holds a run already: add --resume to go on, or remove it")
    if args.calibrate is None:
        args.calibrate = is_network(args.model) and calibration_pays(args.particles, args.dim)
    dt, steps, gamma = DEFAULTS[args.kernel]
    dt, steps = dt if args.dt is None else args.dt, steps if args.steps is None else args.steps
    distribution = landau_start(args.start, args.dim)
    start = distribution.sample(args.particles, torch.Generator().manual_seed(args.seed))
    history = integrate(
        Landau(gamma),
        start,
        choose_oracle(args.model, distribution, seed=args.seed, every=args.every, calibrate=args.calibrate),
        dt=dt,
        steps=steps,
        scheme=args.scheme,
        frames=[dt * steps * k / (FRAMES - 1) for k in range(FRAMES)] if args.plot else (),
        checkpoint=args.checkpoint,
        resume=args.resume,
        label=f"{args.kernel} {_model_name(args)}",
    )
    reference = _reference(args, history, dt, steps)
    if args.out:
        table, names = history.table(), ("reference_1_1", "reference_2_2")
        columns = torch.column_stack([torch.from_numpy(table.values), reference[:, 0, 0], reference[:, 1, 1]])
        write_table(Table(columns.numpy(), (*table.names, *names)), args.out)
    if args.plot:
        title = f"Landau, {args.kernel.capitalize()}, d = {args.dim}, n = {args.particles}, "
        title += f"score: {_model_name(args)}"
        plot_relaxation(history, reference, title=title, path=args.plot)
    _report(args, _summary(args, history, reference, dt, steps))


def _model_name(args: argparse.Namespace) -> str:
    return f"{args.model}, calibrated" if args.calibrate else str(args.model)


def _reference(args: argparse.Namespace, history: Any, dt: float, steps: int) -> Any:
    """Covariance (steps + 1, d, d) from the sample's own moments: closed form, or pair Monte Carlo."""
    import torch

    from discoformer.particles import landau_start, match_moments, maxwell_covariance, pair_monte_carlo

    initial = history.covariance[0]
    if args.kernel == "maxwell":
        return maxwell_covariance(initial, history.times)
    generator = torch.Generator().manual_seed(args.seed + 1)
    large = landau_start(args.start, args.dim).sample(REFERENCE_PARTICLES, generator)
    matched = match_moments(large, history.mean[0], initial)
    return pair_monte_carlo(matched, dt=dt, steps=steps, rounds=4, seed=args.seed).covariance


def _summary(args: argparse.Namespace, history: Any, reference: Any, dt: float, steps: int) -> dict[str, Any]:
    error = (history.covariance - reference)[:, 0, 0].abs()
    entropy = [None if math.isnan(h) else h for h in history.entropy[[0, -1]].tolist()]
    return {
        "kernel": args.kernel,
        "n": args.particles,
        "d": args.dim,
        "start": args.start,
        "model": _model_name(args),
        "dt": dt,
        "steps": steps,
        "sigma_11": history.covariance[[0, -1], 0, 0].tolist(),
        "reference_11": reference[[0, -1], 0, 0].tolist(),
        "max_error_11": float(error.max()),
        "momentum_drift": float((history.mean - history.mean[0]).abs().max()),
        "energy_drift": float((history.energy / history.energy[0] - 1).abs().max()),
        "entropy": entropy,
        "seconds": float(history.seconds[-1]),
        "out": str(args.out) if args.out else None,
        "plot": str(args.plot) if args.plot else None,
    }


def _report(args: argparse.Namespace, summary: dict[str, Any]) -> None:
    if args.json:
        print(json.dumps(summary))
        return
    from discoformer.views.terminal import print_table

    print(
        f"Landau {args.kernel.capitalize()}, {args.particles} particles in {args.dim} dimensions, "
        f"model {summary['model']}: {summary['steps']} steps of {summary['dt']:g} "
        f"in {summary['seconds']:.1f} s"
    )
    (first, last), (_, expected) = summary["sigma_11"], summary["reference_11"]
    rows = [
        ["Sigma_11 at the start", f"{first:.4f}"],
        ["Sigma_11 at the end", f"{last:.4f}"],
        ["its reference", f"{expected:.4f}"],
        ["largest error of Sigma_11", f"{summary['max_error_11']:.4f}"],
        ["momentum drift", f"{summary['momentum_drift']:.1e}"],
        ["energy drift", f"{summary['energy_drift']:.2%}"],
    ]
    print_table(["quantity", "value"], rows)
    for path in filter(None, (args.out, args.plot)):
        print(f"wrote {path}")
