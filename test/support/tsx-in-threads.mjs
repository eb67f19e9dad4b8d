import { isMainThread } from 'node:worker_threads'
import { register } from 'tsx/esm/api'

/* For --import in addition to tsx's own, which only affects the main thread. */
if (!isMainThread) register()
