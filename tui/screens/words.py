"""The glossary: a sentence for each word on screen that is no title of a column."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from textual.widget import Widget

from tui.widgets.drawing.canvas import ScrollCanvas
from tui.widgets.pick import PickList
from tui.widgets.sections import on_screen
from tui.widgets.status import HeadlineBar

if TYPE_CHECKING:
    from engine.core.tables import Table

TERMS: Mapping[str, str] = {
    "active CPUs": "CPUs that were busy on average.",
    "against": "The side before it is judged, by its change from the side behind it.",
    "alive": "How many brokers or nodes answer, of those that belong to the cluster.",
    "attr.": "Short for attributed: share of the measured CPU that is given to some query class.",
    "attributed": "Share of the measured CPU that the estimate gives to some query class; the rest is unattributed.",
    "avoidable": "Memory over time that was idle, too large or lost, so that other settings would save it.",
    "balancedness": "Cruise Control's grade of the balance: 100 if every goal is kept.",
    "best ID": "The name of a new node with which the fewest shards would move.",
    "bucket": "Which quantile of a measurement: p50 is the median, p99 what 99 of 100 stay below.",
    "cascade": "Nodes above their capacity fail too, until nothing changes any more.",
    "change point": "A run from which on a metric stays at another level.",
    "classes": "Queries that are alike but for their values.",
    "Cliff's delta": "How often a value of one side is above one of the other: 1 always, 0 as often as not, -1 never.",
    "coverage": "Share of the partitions whose load is known.",
    "cut here": "Carries out the plan only as far as the row under the cursor.",
    "cv": "Standard deviation over mean: 0 if the load is even.",
    "datasets": "Parts of a tenant's data that are placed as one.",
    "drift": "Where the files show data on other nodes than the ring says.",
    "equivalent": "The difference is so small, with certainty, that the threshold allows it.",
    "executor": "A process of a Spark application that runs its tasks.",
    "flags": "What is special about a row, in a word; empty if nothing is.",
    "follower": "A replica that copies from its leader.",
    "GB·h": "Gigabytes of memory held, times the hours for which they were.",
    "geometric mean": "The usual factor by which metrics changed.",
    "goals": "Rules of Cruise Control for a balanced cluster; those that must hold are hard.",
    "headroom": "What is left until the tightest resource reaches its limit; below 0 it is over.",
    "held": "Memory times the time for which it was reserved, of all attempts.",
    "holds most": "The node with the largest share of the keys.",
    "hottest": "The node with the largest load.",
    "if one fails": "What each node must be able to take if any one of the others fails.",
    "intervals": "Pieces of time between two looks at the counters, that are used of those in the files.",
    "ISR": "In-sync replicas: those that have all messages. Below min ISR producers with acks=all are refused.",
    "key shares": "Largest share of the keys over the mean one, and how uneven all are.",
    "leaders": "Partitions whose reads and writes this broker serves.",
    "margin": "Ratios that the threshold still takes for equal.",
    "max/mean": "Largest load over the mean of all nodes that take data: 1 is even.",
    "medians": "The middle value of each side.",
    "members": "Nodes that are registered in the ring.",
    "method": "How the CPU is divided among the query classes.",
    "moved": "Load that changes its node; in brackets the part whose old node is still there.",
    "needs": "What each node must be able to take if any one of the others fails.",
    "next loss": "The single loss that would hurt most, on top of what is lost already.",
    "next node": "The name that the next node would get, and how many shards would move to it.",
    "observed": "What metrics say, not the model.",
    "one more failure": "What the loss of any one broker, node or rack would leave, on top of what is lost already.",
    "over capacity": "How many need more than their limit of CPU, disk or network.",
    "owns": "Share of the keys that the node's tokens cover, in its zone.",
    "owns most": "The node whose tokens cover the largest share of the keys.",
    "potential out": "Outgoing traffic if the broker led every partition that it holds.",
    "q": "Chance that a difference is found where there is none, over all metrics together.",
    "ratio": "Value of the right side over that of the left, by the estimator that the panel names.",
    "regime": "Moment of a failure: A not noticed yet, B the node is gone, C it is back.",
    "rejected": "Writes that nobody takes in this scenario.",
    "rerouted": "Writes that go to another node than usual.",
    "off by": "Modelled minus measured CPU, in percent of a broker; near 0 the model fits.",
    "right/left": "Value of the right side over that of the left, by the estimator that the panel names.",
    "ring": "Which ring of the files is shown: it says which node owns which keys.",
    "severe or worse": "Jobs with at least one severe or critical verdict.",
    "shard": "A part of the keys with one owner.",
    "shift": "Whether the values of one side are higher on the whole: the chance of that by accident.",
    "similar enough": "Whether the share of metrics that match reaches the threshold.",
    "similarity": "How alike the metrics of both sides are: 1 is equal.",
    "single failure": "What the loss of any one broker, node or rack would leave.",
    "skew": "How unevenly the load is spread: 0 evenly, 1 all in one place.",
    "spill": "Records that are written to disk because memory is short.",
    "spread": "Whether the values of one side are more scattered: the chance of that by accident.",
    "survives": "What each node must be able to take so that the loss is survived.",
    "take data": "How many nodes take writes, of those in the ring.",
    "taken by": "The brokers that get the most leaders of those that are lost.",
    "topology": "Whether the files show the whole cluster or only a part of it.",
    "trend": "The last values, each row between its own least and largest one.",
    "true cost": "Memory that containers held over their whole time, failed attempts too.",
    "trust": "How far the checks bear the estimate out: good, fair, poor.",
    "unattributed": "Share of the measured CPU that goes to no query class.",
    "undecided": "Too few values, or too scattered, to tell a change from chance.",
    "worst loss": "The single loss that would hurt most, on top of what is lost already.",
    "worst with": "The node whose failure together with this one would lose the largest share of the keys.",
    "writes lost": "Share of the writes that fail in this scenario.",
    "WLR": "Weighted linear regression: the CPU of each interval explained by the time of the classes in it.",
    "× mean": "Load over the mean of all nodes that take data.",
}
"""Words that are explained wherever they are on screen."""

LABELS: Mapping[str, str] = {
    "added": "Brokers that the scenario adds.",
    "because": "Why the model differs from the measurement.",
    "before": "The intervals with which they are compared.",
    "brokers": "How many brokers answer, of those that belong to the cluster.",
    "capacity": "Where the limits of this broker are taken from.",
    "cores": "CPU cores of the machine, as the capacity says.",
    "counted": "Messages per second as the broker's own counters say.",
    "CPU": "Processor time, or the share of it that is used.",
    "CPU measured": "CPU as the metrics say, mean over the windows.",
    "CPU modelled": "CPU that the load of its replicas explains.",
    "CPUs": "CPUs that were busy on average.",
    "CPU from": "Lower end of the CPU that the class can have used.",
    "CPU s from-to": "Between which two values the CPU of the class lies.",
    "CPU to": "Upper end of the CPU that the class can have used.",
    "cutoff": "Smaller values count as this one: differences below it do not matter.",
    "dead": "Brokers that are down in the scenario.",
    "demoted": "Brokers that give all their leaders to others in the scenario.",
    "disk": "Space that the replicas take, of what there is.",
    "failed": "Jobs that ended in an error; killed ones are counted apart.",
    "fails": "What the scenario leaves of the cluster.",
    "fit": "On how many observations the weights rest, and their error on data that were kept apart.",
    "follower in": "Bytes per second that replicas copy from leaders on other brokers.",
    "for": "The goal that the step serves.",
    "from": "Who owned before what the node takes now, and how much.",
    "gone": "What the scenario leaves once the node is out of the ring.",
    "Gini of bytes": "How unevenly the bytes are spread over the tasks: 0 all alike, 1 one task has all.",
    "goes to": "Who takes what the node had, and how much.",
    "holds": "Share of all keys of which the node has a replica.",
    "host": "Name of the machine.",
    "id": "The job's name in the cluster.",
    "in": "Bytes per second that are written.",
    "in capacity": "Bytes per second that the broker's network takes.",
    "in sync": "Replicas that have all messages.",
    "interval": "Between which two values the saving lies with 90% certainty.",
    "IO": "Time that the queries waited for disk.",
    "jobs": "How many jobs the files hold.",
    "latency of the others": "How much faster or slower all other queries get on freer or busier CPUs.",
    "leader": "The broker that serves reads and writes of the partition.",
    "leader in": "Bytes per second that producers write to the partitions led here.",
    "load": "Load of the node before and after the scenario, or of all nodes together.",
    "map container": "Memory that each map task reserved.",
    "maps": "Map tasks that ran at a time.",
    "means": "The average value of each side, small ones raised to the cutoff.",
    "mends": "Goals that hold after this step and did not before.",
    "messages in": "Messages per second that producers write.",
    "methods disagree by": "How far the CPU that other methods give to this query is from the one shown.",
    "missing": "Metrics that only one side has.",
    "no sample": "Why the load of the partition is not known.",
    "model: CPU per call": "CPU of one call, as the estimate has it.",
    "model: CPU per time": "CPU seconds per second that the query took, as the estimate has it.",
    "nodes": "How many nodes take data, of those in the ring.",
    "of it": "The part of what moves whose old node is still up.",
    "out": "Bytes per second that are read.",
    "out capacity": "Bytes per second that the broker's network sends.",
    "now": "The intervals that are shown.",
    "over": "Limits that the scenario breaks.",
    "partition": "The partition that the step moves.",
    "partitions": "How many partitions can be written and read.",
    "plan": "What the proposed steps would move and mend.",
    "queries": "How many tenants' queries fail in this scenario.",
    "query id": "The database's own number of the query.",
    "rack": "The rack, or availability zone, that the broker says it is in.",
    "reduce container": "Memory that each reduce task reserved.",
    "reducers": "Reduce tasks that ran at a time.",
    "replicas": "Brokers that hold the partition, its preferred leader first.",
    "severe": "Jobs with at least one severe or critical verdict.",
    "CPU share": "Part of the measured CPU that goes to this query.",
    "time share": "Part of the time of all queries that goes to this one.",
    "shards": "How many shards there are, and how many get another owner.",
    "source": "Where the numbers are taken from.",
    "state": "Whether it takes part: alive or not, as the files or the scenario say.",
    "survived": "Of how many single losses every partition keeps a leader then.",
    "tenants": "Users of the ring: how many have data there, or are touched by the scenario.",
    "tasks": "Maps and reducers, or tasks of all stages.",
    "then": "Which goals are violated after this step.",
    "time": "Time that queries took, their waits included.",
    "time on bytes": "How well the bytes of a task explain its time.",
    "used, wasted": "Memory over time that tasks used, and that Dr. Elephant calls wasted.",
    "user, queue": "Who submitted the job, and to which queue.",
    "unit": "What the load of the ring is measured in.",
    "values": "What the characters of the strip mean.",
    "verdict": "What the numbers allow to say.",
    "weights": "How much CPU a byte costs: a read in by leaders, b sent out, c copied by followers.",
    "wait for a container": "How long tasks waited until the cluster had room: shortest, middle and longest.",
    "wait": "How long the job waited for the cluster.",
    "what if": "What the scenario leaves, and how to take it back.",
    "windows": "Whether every piece of time has enough samples.",
    "writes": "Share of all keys whose writes fail in this scenario.",
}
"""Words that are explained where they stand before a value: elsewhere they are plain English."""

LABEL = re.compile(r"(?!.*  )[^\W\d][^│─;.<>=]{0,28}")
"""What can be a label: a word or a few, no axis of a plot and no sentence."""


def labels_on(shown: Widget) -> list[str]:
    """Return what stands before a value in the headline and the panels of ``shown``."""
    numbers = [number for bar in shown.query(HeadlineBar) for number in bar.numbers]
    found = [name for number in numbers for name in (number.label, *(number.short or ())[:1])]
    for panel in shown.query(ScrollCanvas):
        if on_screen(panel):
            most = None if isinstance(panel, PickList) else 1  # a view's line in the overview has several
            places = [part for line in panel.drawn if len(line) > 1 for part in line[:most]]
            found += [text.rstrip() for text, style in places if style == "dim"]
    return [label for label in dict.fromkeys(found) if LABEL.fullmatch(label)]


def explained(text: str, labels: Iterable[str], tables: Iterable[Table]) -> dict[str, str]:
    """Return the sentences that explain words of ``text`` and of ``labels``, by word in alphabetical order.

    Sentences are from the glossary, then from the columns of ``tables``.
    """
    found = {
        term: sentence
        for term, sentence in TERMS.items()
        if re.search(rf"(?<!\w){re.escape(term)}(?!\w)", text, re.IGNORECASE)
    }
    known = {**{column.header: column.meaning for table in tables for column in table.columns}, **LABELS}
    terms = {term.lower() for term in found}
    for label in labels:
        start = label.removesuffix("…")  # cut where the panel is narrow
        alike = (name for name in known if name.lower() == label.lower() or (start != label and name.startswith(start)))
        sentence = known.get(next(alike, label.rpartition(" ")[2]))
        if sentence and label.lower() not in terms:
            found[label] = sentence
    return dict(sorted(found.items(), key=lambda entry: entry[0].lower()))
