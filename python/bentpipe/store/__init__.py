"""Store: a directory with the measurements of each finished run, written atomically and read with checksums.

``schema``: frames of the tables
``files``: atomic writes and checksums
``cache_dir``: directory of the user's caches
``index``: finished runs on disk
``journal``: log of runs, and the lock of the writer
``codec``: conversion between bytes of the engine, frames and Parquet files
``plan_file``: ``plan.json`` of a store
``query_limits``: limits of a query
``sql``: SQL over a store
``sql_names``: names of columns in SQL
``query_errors``: messages of wrong SQL, with the nearest table or column
``query_frame``: results of SQL as frames
``scan``: one table of many runs as a lazy frame
``numeric_columns``: swept quantities as numbers
``tables``: one property of ``Store`` for each table
``pack``: files of many runs in one directory
``listing``: stores of a folder
``reader``: reader of a store
``joined``: several stores side by side
``settings``: keys in which stores differ
``repair``: intact runs of damaged packs
``writer``: writes one finished run at a time
``packing``: conversion of run directories into packs
``export``: copies of tables and traces for other programs
"""
