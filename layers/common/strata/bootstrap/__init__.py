"""The only place where adapters meet use cases: one cached factory a use case, in a module for each who asks.

Nothing is built, read or connected at import; a function's first call pays for what it uses, later calls find it.

    environment       the settings of this process, its clock
    stores            Postgres, DynamoDB, S3 and the functions that are called
    models            the embedder, and the chat model's two helpers
    jobs              what requests ask: sessions and jobs
    workers           what does their work
    questions         what answers
"""
