"""What many trainings say together: intervals, comparisons and decisions that count every source of chance.

Another training set and another seed would have given another model; another test set would have asked something else.
All are estimated from the same table of predictions (`Outcomes`), and all widen the interval. docs/statistics.md
explains every formula and shows how often each keeps its word, on real data and on made-up data.
"""

from pocketbert.statistics.comparison import Comparison, compare, compare_all, equivalence, mcnemar
from pocketbert.statistics.correction import holm, shaffer
from pocketbert.statistics.decision import (
    Recommendation,
    collapsed,
    highest_score,
    nested_outcomes,
    non_inferiority,
    recommend,
)
from pocketbert.statistics.estimate import Estimate, estimate
from pocketbert.statistics.learning_curve import Forecast, follows_power_law, forecast
from pocketbert.statistics.outcomes import METRICS, Outcomes, influence_values
from pocketbert.statistics.variance import LEVEL, POWER

__all__ = [
    "LEVEL",
    "METRICS",
    "POWER",
    "Comparison",
    "Estimate",
    "Forecast",
    "Outcomes",
    "Recommendation",
    "collapsed",
    "compare",
    "compare_all",
    "equivalence",
    "estimate",
    "follows_power_law",
    "forecast",
    "highest_score",
    "holm",
    "influence_values",
    "mcnemar",
    "nested_outcomes",
    "non_inferiority",
    "recommend",
    "shaffer",
]
