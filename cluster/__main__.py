"""python -m cluster build [api|node] | api --dir DIR | up | down | image"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from cluster import build as builder
from cluster import image, node
from cluster.api import ApiWorld
from cluster.places import ClusterError, Places


def say(line: str) -> None:
    print(line, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="build Kubernetes and etcd into the cache")
    build.add_argument("what", nargs="?", choices=sorted(builder.SETS), default="node")
    api = commands.add_parser("api", help="run an API server until interrupted; no root needed")
    api.add_argument("--dir", type=Path, required=True, help="an empty directory")
    commands.add_parser("up", help="bring up a whole node; root")
    commands.add_parser("down", help="take it down, leaving nothing behind; root")
    commands.add_parser("image", help="make the product's image; a node that is up gets it")
    args = parser.parse_args()
    places = Places.user()
    try:
        if args.command == "build":
            builder.build(places, builder.SETS[args.what], say)
            say(f"all there: {places.bin}")
        elif args.command == "api":
            _serve(ApiWorld(args.dir.resolve(), places))
        elif args.command == "up":
            node.up(places, say)
            say(f"export KUBECONFIG={node.kubeconfig(places)}")
        elif args.command == "image":
            made = image.make(places, say)
            if node.is_up(places):
                node.load_image(places, made)
                say(f"the node has {image.NAME}")
        else:
            node.down(places, say)
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    return 0


def _serve(world: ApiWorld) -> None:
    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    with world:
        say(f"ready; Ctrl-C stops it\nexport KUBECONFIG={world.kubeconfig}")
        signal.sigwait(signals)


if __name__ == "__main__":
    sys.exit(main())
