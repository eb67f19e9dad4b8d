import { isMainThread } from 'node:worker_threads'
import { register } from 'tsx/esm/api'

/* For --import: registers tsx in worker threads. tsx itself affects only the main thread. */
if (!isMainThread) register()
