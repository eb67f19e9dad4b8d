import { parentPort, workerData } from 'node:worker_threads'
import { readConfig } from '../shared/config.js'
import { ConfigError } from '../shared/errors.js'
import { AgentConfigSchema } from './config.js'

/* Data: path of the file. One message out: {config} or {problem}. */

try {
  parentPort!.postMessage({ config: readConfig(AgentConfigSchema, workerData as string) })
} catch (error) {
  if (!(error instanceof ConfigError)) throw error
  parentPort!.postMessage({ problem: error.message })
}
