import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { waitFor } from '../support/wait.js'
import type { BerthApi } from './berth-api.js'
import { startCrowd } from './crowd.js'
import { figure, type Figure } from './figures.js'
import type { Lxd } from './lxd.js'
import type { RawTools } from './raw-tools.js'

const run = promisify(execFile)
const guests = 100
const names = Array.from({ length: guests }, (_, i) => `storm-${i}`)

export interface StormOptions {
  /** Directory with lxc's configurations of the instance named bench, to run commands in guests. */
  lxcPath: string
  /** Returns the name `<prefix>-<id>` of a container. */
  lxcName: (id: number) => string
  /** Called while all guests are running and idle. */
  whileIdle: () => Promise<Figure[]>
}

/** Requests 100 Debian guests with systemd at once. Measures the time until all run and until all have booted. */
export async function benchStorm(
  api: BerthApi,
  raw: RawTools,
  lxd: Lxd | undefined,
  options: StormOptions,
): Promise<Figure[]> {
  const own = await stormBerth(api, options)
  const floor = await startCrowd(raw, names, 4)
  const peer = lxd ? await startCrowd(lxd, names, 16) : undefined
  return [
    figure(`${guests} creates at once until all that can run do`, 's', {
      Berth: own.runningSeconds,
      'raw tools': floor.seconds,
      LXD: peer?.seconds,
    }),
    figure('of these failed', '', { Berth: own.failed, 'raw tools': floor.failed, LXD: peer?.failed }),
    figure('until systemd is up in all', 's', { Berth: own.bootedSeconds }),
    figure('guests whose systemd is `running`', '', { Berth: own.booted }),
    ...own.idle,
  ]
}

interface BerthStorm {
  runningSeconds: number
  bootedSeconds: number
  failed: number
  booted: number
  idle: Figure[]
}

async function stormBerth(api: BerthApi, options: StormOptions): Promise<BerthStorm> {
  const begun = performance.now()
  const seconds = (): number => (performance.now() - begun) / 1000
  const tasks = await Promise.all(names.map((name) => api.create(name)))
  const ended = await Promise.allSettled(tasks.map(({ task_id }) => api.untilDone(task_id)))
  const runningSeconds = seconds()
  const failed = ended.filter(({ status }) => status === 'rejected').length
  const list = await api.call<{ id: number; name: string; status: string }[]>('GET', '/containers')
  const running = list.filter(({ name, status }) => name.startsWith('storm-') && status === 'running')
  let booted = 0
  for (const { id } of running) if (await isBooted(options, id)) booted += 1
  const bootedSeconds = seconds()
  const idle = await options.whileIdle()
  await Promise.all(
    running.map(async ({ name }) => {
      await api.call('DELETE', `/containers/${name}/delete`)
      await api.untilGone(name)
    }),
  )
  return { runningSeconds, bootedSeconds, failed, booted, idle }
}

/** Waits for the end of the boot. @returns whether the guest's systemd is `running` */
async function isBooted({ lxcPath, lxcName }: StormOptions, id: number): Promise<boolean> {
  const attach = ['-P', lxcPath, '-n', lxcName(id), '--clear-env', '--', 'systemctl', 'is-system-running']
  return waitFor(
    async () => {
      const state = await run('lxc-attach', attach).then(
        ({ stdout }) => stdout.trim(),
        (error: { stdout?: string }) => error.stdout?.trim() ?? '',
      )
      return state === 'running' ? 'yes' : state === 'degraded' ? 'no' : undefined
    },
    { timeoutMs: 180_000, intervalMs: 250 },
  ).then(
    (answer) => answer === 'yes',
    () => false,
  )
}
