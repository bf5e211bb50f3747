"""A thin asynchronous Kubernetes client: what the rest of the house knows of the cluster.

config, credentials ──► transport ──┐
                                    ├──► client (pods, exec) ──► informer (cache, watch), leader
        the embedded API in process ┘

Reads decode into Structs of only the fields we use (`kinds`, `resources`); writes are plain dicts.
`wire` and `status` are the vocabulary that the embedded API shares. Only `transport` knows HTTP: a
process that talks to the embedded API alone never loads the library.
"""
