import { expect } from 'chai'
import { patienceMs, waitFor } from '../wait.js'

/** Runs a program inside a machine. @returns its standard output @throws if it fails */
export type RunInMachine = (...command: string[]) => string

export interface MachineApi {
  /** Calls the API of the machine's own gateway with curl, inside the machine. */
  readonly ask: <T>(path: string, init?: { method?: string; body?: unknown }) => T
  /** Like `ask`, but returns undefined if the call fails, for example while the gateway is still starting. */
  readonly tryAsk: <T>(...asked: Parameters<MachineApi['ask']>) => T | undefined
  /** Resolves when the task is done. */
  readonly follow: (taskId: string, timeoutMs?: number) => Promise<void>
}

export function machineApi(run: RunInMachine): MachineApi {
  const ask: MachineApi['ask'] = <T>(path: string, init: { method?: string; body?: unknown } = {}) => {
    const body = init.body === undefined ? [] : ['--data', JSON.stringify(init.body)]
    const script = `exec curl -sS --max-time 100 -H "X-API-Key: $(cat /etc/berth/admin.key)" "$@"`
    const args = ['-H', 'Content-Type: application/json', '-X', init.method ?? 'GET', ...body]
    const text = run('sh', '-c', script, 'curl', ...args, `http://127.0.0.1:8080/api/v1${path}`)
    const answer = JSON.parse(text) as { success: boolean; data: T }
    expect(answer.success, text).to.equal(true)
    return answer.data
  }
  const tryAsk: MachineApi['tryAsk'] = <T>(...asked: Parameters<MachineApi['ask']>) => {
    try {
      return ask<T>(...asked)
    } catch {
      return undefined
    }
  }
  const follow = async (id: string, timeoutMs = patienceMs): Promise<void> => {
    const find = (): { status: string; error: string } | undefined => {
      const task = ask<{ status: string; error: string }>(`/tasks/${id}`)
      return ['done', 'failed', 'canceled'].includes(task.status) ? task : undefined
    }
    const task = await waitFor(find, { timeoutMs, intervalMs: 300, what: `task ${id}` })
    expect(task.status, task.error).to.equal('done')
  }
  return { ask, tryAsk, follow }
}
