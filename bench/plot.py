"""Draws the share of the peak over the rows of a product, from a result of bench/suite.py:

bench/plot.py RESULT.json docs/products.svg
"""

import argparse
import json
import re
from pathlib import Path

WIDTH, HEIGHT, MARGIN = 720, 420, 50
COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf")
NAME = re.compile(r"(?P<matrix>[^/]+/[^/]+)/cold/rows:(?P<rows>\d+)$")


def curves(result):
    """{matrix: [(rows, share)]} of cold bf16 weights."""
    found = {}
    for name, figures in result["micro"]["kernels_bench"].items():
        if match := NAME.match(name):
            found.setdefault(match["matrix"], []).append((int(match["rows"]), figures["of_products"]))
    return {matrix: sorted(points) for matrix, points in found.items()}


def draw(found):
    rows = sorted({r for points in found.values() for r, _ in points})

    def x(r):
        return MARGIN + rows.index(r) * (WIDTH - 4 * MARGIN) / (len(rows) - 1)

    def y(share):
        return HEIGHT - MARGIN - share * (HEIGHT - 2 * MARGIN)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for percent in range(0, 101, 20):
        at = y(percent / 100)
        lines.append(f'<path d="M{MARGIN} {at:.1f}H{WIDTH - 3 * MARGIN}" stroke="#ddd"/>')
        lines.append(f'<text x="{MARGIN - 6}" y="{at + 4:.1f}" text-anchor="end">{percent} %</text>')
    lines += [f'<text x="{x(r):.1f}" y="{HEIGHT - MARGIN + 16}" text-anchor="middle">{r}</text>' for r in rows]
    lines.append(f'<text x="{MARGIN}" y="20">bf16 products, weights from memory: share of the peak over rows</text>')
    for index, (matrix, points) in enumerate(found.items()):
        colour = COLOURS[index % len(COLOURS)]
        path = "L".join(f"{x(r):.1f} {y(share):.1f}" for r, share in points)
        lines.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        lines.append(f'<text x="{WIDTH - 3 * MARGIN + 8}" y="{60 + 16 * index}" fill="{colour}">{matrix}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=Path)
    parser.add_argument("picture", type=Path)
    args = parser.parse_args()
    args.picture.write_text(draw(curves(json.loads(args.result.read_text()))))


if __name__ == "__main__":
    main()
