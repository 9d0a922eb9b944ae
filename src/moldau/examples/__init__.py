"""Case studies: small projects on Moldau and Spark, which `moldau examples run NAME` runs.

Each study is a package of this one:

- README.md: what the study shows, how to run it, what to look at;
- generator.py: the data. TOPICS, and `records(seed, begin_ms, rate)`;
- pipeline.py: the Spark queries. TOPICS (the results), and `queries(spark, place)`;
- reference.py: the same results in plain Python. `expected(read)`;
- view.py: the live view. `picture(results)`.

The modules of this package run a study: `study.py` finds it and describes the functions above, `place.py` helps its
pipeline to read and write topics, `pipeline_process.py` is the process of its queries, `run.py` runs it all.
"""
