"""Statistics: metrics of raw measurements, means and their intervals, samples, the difference of two stores.

``titles`` (what each metric is called), ``intervals`` (with ``student``) and ``samples`` <- ``windows`` (goodput over
time) <- ``fairness`` (when flows came to share fairly) <- ``metrics`` (what is
computed of runs, cells, links) <- ``groups`` (flows that stand for one), ``users`` (what those who share a link
had) <- ``summary`` (what ``show`` prints); ``calls`` judges calls;
``bundles`` has what clients of bundle nodes had; ``sides`` is what two real programs measured of each other;
``compare`` tests, corrects and judges paired values; ``store_comparison`` makes the pairs of two stores, with the
metrics of ``compared``, the restricted times of ``censoring`` and the ``scenario_differences``; ``change_table``
shows them.
``wording`` writes numbers and says what there is to say, for a page and a terminal alike.
"""
