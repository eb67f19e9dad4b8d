import { parentPort, workerData } from 'node:worker_threads'
import { readConfig } from '../shared/config.js'
import { ConfigError } from '../shared/errors.js'
import { AgentConfigSchema } from './config.js'

/*
 * Reads the configuration in a worker thread. Its data is the file's path; it posts one message, {config} or {problem}.
 */

try {
  parentPort!.postMessage({ config: readConfig(AgentConfigSchema, workerData as string) })
} catch (error) {
  if (!(error instanceof ConfigError)) throw error
  parentPort!.postMessage({ problem: error.message })
}
