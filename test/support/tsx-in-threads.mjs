import { isMainThread } from 'node:worker_threads'
import { register } from 'tsx/esm/api'

/* For --import beside tsx's own, which reaches the main thread alone. */
if (!isMainThread) register()
