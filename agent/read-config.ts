import { once } from 'node:events'
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { ConfigError } from '../shared/errors.js'
import type { AgentConfig } from './config.js'

type Answer = { readonly config: AgentConfig } | { readonly problem: string }

/**
 * Reads and checks the agent's configuration in a thread, so that its libraries do not take 6 MB of the daemon's
 * memory.
 * @throws {ConfigError}
 */
export async function readAgentConfig(path: string): Promise<AgentConfig> {
  const worker = new Worker(new URL(`config-worker${extname(import.meta.url)}`, import.meta.url), {
    workerData: path,
  })
  const [answer] = (await once(worker, 'message')) as [Answer]
  await worker.terminate()
  if ('problem' in answer) throw new ConfigError(answer.problem)
  return answer.config
}
