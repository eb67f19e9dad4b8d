import { once } from 'node:events'
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { ConfigError } from '../shared/errors.js'
import type { AgentConfig } from './config.js'

type Answer = { readonly config: AgentConfig } | { readonly problem: string }

/**
 * The agent's configuration, read and checked in a thread of its own: the libraries for it take 6 MB, which a daemon
 * would keep.
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
