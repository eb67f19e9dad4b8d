import { parentPort, workerData } from 'node:worker_threads'
import { readConfig } from '../shared/config.js'
import { ConfigError } from '../shared/errors.js'
import { AgentConfigSchema } from './config.js'

/* A worker thread that reads the configuration. Its input is the file's path. It posts {config} or {problem}. */

try {
  parentPort!.postMessage({ config: readConfig(AgentConfigSchema, workerData as string) })
} catch (error) {
  if (!(error instanceof ConfigError)) throw error
  parentPort!.postMessage({ problem: error.message })
}
