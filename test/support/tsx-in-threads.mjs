import { isMainThread } from 'node:worker_threads'
import { register } from 'tsx/esm/api'

/* Registers tsx in worker threads. It is for --import in addition to tsx itself, which affects only the main thread. */
if (!isMainThread) register()
