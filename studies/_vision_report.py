"""Tables, claims and figure of the vision study, from its tidy frame."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ._claims import Claim, write_claims
from ._runner import write_atomically

PAPER_TABLE = Path(__file__).parent / "paper_vision.csv"
NAMES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "svhn": "SVHN", "noise": "noise"}
ORDER = (
    "parent",
    "kdn",
    "kdn PAPER",
    "kdn oe",
    "isotonic",
    "sigmoid",
    "temperature",
    "acet",
    "odin",
    "oe",
    "focal",
    "dual focal",
)
HIGHER = ("accuracy", "auroc", "rejected")  # is better
REJECTED = tuple(
    f"{what} at {level}" for level in ("0.01", "0.05") for what in ("rejected", "false alarms")
)
TIMED = ("fit", "predict", "forward")
DETECTORS = ("energy", "mahalanobis", "knn", "vim")
USED_OUTLIERS = ("oe", "acet", "kdn oe")
ID_FIGURES = {"accuracy": "accuracy", "ece": "ECE", "confidence on errors": "MMC on errors"}
# OpenOOD v1.5, CIFAR-10, ResNet-18: the mean over its near sets, CIFAR-100 and Tiny ImageNet.
OPENOOD = "OpenOOD v1.5 has, near: k-NN 90.64, MSP 88.03 (mean of CIFAR-100 and Tiny ImageNet)"


def draw(frame: pd.DataFrame, folder: Path) -> list[Path]:
    frame = frame[frame["stage"] == "score"]
    files = [write_tables(frame, folder), write_claims(find_claims(frame), folder)]
    return files + draw_figure(frame, folder)


def best_score(frame: pd.DataFrame) -> pd.DataFrame:
    """AUROC and FPR by the score that a method is known for: KDN's is its density."""
    kdn = frame["method"].str.startswith("kdn")
    detection = frame["metric"].isin(["auroc", "fpr", *REJECTED])
    return frame[~detection | ~kdn | (frame["score"] == "density")]


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean, deviation and number of seeds of each figure."""
    keys = ["encoder", "id", "metric", "ood", "method"]
    filled = best_score(frame).assign(ood=lambda f: f["ood"].fillna(""))
    return filled.groupby(keys)["value"].agg(["mean", "std", "count"])


# ------------------------------------------------------------------------ tables


def write_tables(frame: pd.DataFrame, folder: Path) -> Path:
    """Ours above, the paper's below, for each ID set; one Markdown file."""
    found, paper = summary(frame), pd.read_csv(PAPER_TABLE, keep_default_na=False)
    lines = []
    for encoder in frame["encoder"].unique():
        reps = int(frame[frame["encoder"] == encoder]["rep"].nunique())
        lines += [f"# {encoder}", f"\nMean +- deviation over {reps} seed(s)."]
        ours = found.loc[encoder].reset_index()
        lines += _block("In distribution", ours, paper, list(ID_FIGURES), ORDER)
        lines += _block("OCE", ours, paper, ["oce"], ORDER)
        lines += _block("Detection", ours, paper, ["auroc", "fpr"], (*ORDER, *DETECTORS))
        lines += _block("Share rejected", ours, paper, list(REJECTED), (*ORDER, *DETECTORS))
        lines += _times(frame[frame["encoder"] == encoder])
    path = folder / "tables.md"
    write_atomically(path, "\n".join(lines) + "\n")
    return path


def _block(
    title: str, ours: pd.DataFrame, paper: pd.DataFrame, metrics: list[str], order: tuple[str, ...]
) -> list[str]:
    methods = [m for m in order if (ours["method"] == m).any()]
    lines = [f"\n## {title}\n", "| ID | OOD | figure | whose | " + " | ".join(methods) + " |"]
    lines.append("|---" * (4 + len(methods)) + "|")
    chosen = ours[ours["metric"].isin(metrics)]
    for name, ood, metric in chosen[["id", "ood", "metric"]].drop_duplicates().to_numpy():
        own = _line(ours, name, ood, metric)
        theirs = _line(paper, name, ood, metric)
        label = metric if metric in REJECTED else ID_FIGURES.get(metric, metric.upper())
        start = f"| {NAMES.get(name, name)} | {NAMES.get(ood, ood)} | {label} |"
        lines.append(
            f"{start} ours | " + " | ".join(_shown(own, m, metric) for m in methods) + " |"
        )
        if len(theirs):
            shown = [f"{theirs.loc[m, 'value']:.4g}" if m in theirs.index else "" for m in methods]
            lines.append(f"{start} paper | " + " | ".join(shown) + " |")
    return lines


def _line(table: pd.DataFrame, name: str, ood: str, metric: str) -> pd.DataFrame:
    same = (table["id"] == name) & (table["ood"] == ood) & (table["metric"] == metric)
    return table[same].set_index("method")


def _shown(own: pd.DataFrame, method: str, metric: str) -> str:
    if method not in own.index:
        return ""
    best = own["mean"].max() if metric.startswith(HIGHER) else own["mean"].min()
    mean, deviation = own.loc[method, "mean"], own.loc[method, "std"]
    text = f"{mean:.4f}" + ("" if pd.isna(deviation) else f" +- {deviation:.4f}")
    return f"**{text}**" if mean == best else text


def _times(frame: pd.DataFrame) -> list[str]:
    times = kdn_seconds(frame)
    if times.empty:
        return []
    machine = ", ".join(sorted(frame["machine"].dropna().unique()))
    lines = [f"\n## Seconds on {machine}, least of the seeds\n"]
    lines.append("| ID | method | fit | predict the test set | one pass of the network |")
    lines.append("|---|---|---|---|---|")
    for (name, method), row in times.iterrows():
        shown = " | ".join(f"{row[part]:.2f}" for part in TIMED)
        lines.append(f"| {NAMES[name]} | {method} | {shown} |")
    return lines


def kdn_seconds(frame: pd.DataFrame) -> pd.DataFrame:
    """Least of the seeds (what else runs on a machine only adds), by ID set and method."""
    times = frame[frame["metric"].isin([f"kdn {part} seconds" for part in TIMED])]
    part = times["metric"].str.split().str[1]
    least = times.groupby(["id", "method", part])["value"].min().unstack().reindex(columns=TIMED)
    # One network for all methods: its pass is timed once.
    least["forward"] = least.groupby("id")["forward"].transform("min")
    return least.dropna()


# ------------------------------------------------------------------------ claims


def find_claims(frame: pd.DataFrame) -> list[Claim]:
    """What must hold of KDN with its defaults, for each encoder."""
    found = summary(frame)["mean"]
    claims = []
    for encoder in frame["encoder"].unique():
        table = found.loc[encoder].unstack()  # rows: id, metric, ood; columns: methods
        if "kdn" in table and "parent" in table:
            claims += _claims_of(table, encoder)
            claims += _claims_of_time(frame[frame["encoder"] == encoder], encoder)
    return claims


def _claims_of(table: pd.DataFrame, encoder: str) -> list[Claim]:
    model = f"kdn on {encoder}"

    def of(metric: str) -> pd.DataFrame:
        rows = table[table.index.get_level_values("metric") == metric]
        return rows[rows["kdn"].notna()]

    accuracy, ece, errors = of("accuracy"), of("ece"), of("confidence on errors")
    oce, auroc = of("oce"), of("auroc")
    loss = (accuracy["parent"] - accuracy["kdn"]).max()
    methods = [m for m in ORDER if m in table and not m.startswith("kdn")]
    gap = (ece["kdn"] - ece[methods].min(axis=1)).max()
    fair = [m for m in (*methods, *DETECTORS) if m in table and m not in USED_OUTLIERS]
    lowest = (oce["kdn"] <= oce[methods].min(axis=1)).sum()
    above = (auroc["kdn"] > auroc["parent"]).sum()
    beats = (auroc["kdn"] >= auroc[fair].max(axis=1)).sum()
    n = len(oce)
    claims = [
        Claim(
            "accuracy of the parent kept, to half a point",
            model,
            f"largest loss {100 * loss:.2f} points (the paper: 1.26)",
            bool(loss <= 0.005),
        ),
        Claim(
            "ECE at most that of the best other method + 0.002",
            model,
            f"largest gap {gap:+.4f}",
            bool(gap <= 0.002),
        ),
        Claim(
            "less confident on errors than the parent",
            model,
            f"{errors['kdn'].mean():.3f}, parent {errors['parent'].mean():.3f}, means of the sets",
            bool((errors["kdn"] < errors["parent"]).all()),
        ),
        Claim(
            "lowest OCE of all methods",
            model,
            f"on {lowest} of {n} pairs (7 of 9 asked); mean {oce['kdn'].mean():.3f}, parent "
            f"{oce['parent'].mean():.3f}",
            bool(lowest >= 7 * n / 9),
        ),
        Claim(
            "AUROC above that of the parent's confidence",
            model,
            f"on {above} of {n} pairs; mean {auroc['kdn'].mean():.4f}, parent "
            f"{auroc['parent'].mean():.4f}",
            bool(above == n),
        ),
        Claim(
            "AUROC at least that of the best method that used no outliers",
            model,
            f"on {beats} of {n} pairs (5 of 9 asked)",
            bool(beats >= 5 * n / 9),
        ),
    ]
    if "kdn oe" in table:
        rows = oce[oce["kdn oe"].notna()]
        lowest = (rows["kdn oe"] <= rows[methods].min(axis=1)).sum()
        claims.append(
            Claim(
                "lowest OCE of all methods, on a network that trained with outliers (oe)",
                f"kdn oe on {encoder}",
                f"on {lowest} of {len(rows)} pairs; mean {rows['kdn oe'].mean():.3f}, oe alone "
                f"{rows['oe'].mean():.3f}",
                bool(lowest >= 7 * len(rows) / 9),
            )
        )
    near = ("cifar10", "auroc", "cifar100")
    if encoder == "resnet18" and near in table.index:
        row = table.loc[near]
        shown = ", ".join(
            f"{m} {100 * row[m]:.2f}" for m in ("kdn", "knn", "parent") if pd.notna(row.get(m))
        )
        claims.append(
            Claim(
                "ResNet-18, CIFAR-10 against CIFAR-100: above k-NN of the same run",
                model,
                f"{shown}; {OPENOOD}",
                bool(row["kdn"] > row.get("knn", 1.0)),
            )
        )
    return claims


def _claims_of_time(frame: pd.DataFrame, encoder: str) -> list[Claim]:
    times = kdn_seconds(frame)
    times = times[times.index.get_level_values("method") == "kdn"].droplevel("method")
    if times.empty:
        return []
    ratio = (times["fit"] + times["predict"]) / times["forward"]
    shown = ", ".join(f"{NAMES[name]} {value:.2f}" for name, value in ratio.items())
    return [
        Claim(
            "fit and answers in less time than one pass of the network over its training images",
            f"kdn on {encoder}",
            f"ratio of the two: {shown}",
            bool((ratio < 1).all()),
        )
    ]


# ------------------------------------------------------------------------ figure


def draw_figure(frame: pd.DataFrame, folder: Path) -> list[Path]:
    """Rows of dots, ECE, OCE and AUROC of every method; a column for each ID set.

    A single ID set has them side by side.
    """
    from matplotlib.lines import Line2D

    from ._figures import new_figure, save

    files = []
    for encoder in frame["encoder"].unique():
        found = summary(frame)["mean"].loc[encoder]
        sets = [name for name in NAMES if name in found.index.get_level_values("id")]
        one = len(sets) == 1
        fig, axes = new_figure(
            1 if one else 3, [1.0] * (3 if one else len(sets)), height=2.6, width=3.0
        )
        axes = axes.T if one else axes
        shown = {"", *found.index.get_level_values("ood")}
        for column, name in zip(axes.T, sets, strict=True):
            for ax, metric in zip(column, ("ece", "oce", "auroc"), strict=True):
                _draw_dots(ax, found.loc[name, metric].unstack("method"))
                ax.set_xlabel(metric.upper())
            column[0].set_title(f"{NAMES[name]} in distribution")
        handles = [
            Line2D([], [], ls="", label=NAMES.get(ood, "the ID set itself"), **style)
            for ood, style in STYLES.items()
            if ood in shown
        ]
        fig.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
        files += save(fig, folder / f"vision_{encoder}")
    return files


STYLES = {
    "": {"color": "#222222", "marker": "D", "ms": 4},
    "cifar10": {"color": "#0072B2", "marker": "o", "ms": 4.5},
    "cifar100": {"color": "#56B4E9", "marker": "s", "ms": 4.5},
    "svhn": {"color": "#D55E00", "marker": "^", "ms": 4.5},
    "noise": {"color": "#999999", "marker": "v", "ms": 4.5},
}


def _draw_dots(ax, table: pd.DataFrame) -> None:
    """A line for each method, a dot for each set; table: sets x methods."""
    methods = [m for m in (*ORDER, *DETECTORS) if m in table]
    for place in range(0, len(methods), 2):  # every second line shaded, to follow it
        ax.axhspan(place - 0.5, place + 0.5, color="#f2f2f2", lw=0, zorder=0)
    for ood, row in table.iterrows():
        ax.plot(row[methods], range(len(methods)), ls="", **STYLES[ood])
    ax.set(yticks=range(len(methods)), yticklabels=methods, ylim=(len(methods) - 0.5, -0.5))
    ax.tick_params(axis="y", length=0)
