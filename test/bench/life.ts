import { waitFor } from '../support/wait.js'
import type { BerthApi } from './berth-api.js'
import { startCrowd } from './crowd.js'
import { figure, median, timed, type Figure } from './figures.js'
import type { Lxd } from './lxd.js'
import type { RawTools } from './raw-tools.js'

export interface LifeOptions {
  readonly rounds: number
  /** Number of guests that one batch request creates. */
  readonly batch: number
}

interface System {
  create(name: string): Promise<void>
  snapshot(name: string, snapshot: string): Promise<void>
  /** Restores a running guest and waits until it runs again. */
  restore(name: string, snapshot: string): Promise<void>
  drop(name: string, snapshot: string): Promise<void>
  /** Reinstalls a guest and waits until it runs with a new disk. */
  reinstall(name: string): Promise<void>
  delete(name: string): Promise<void>
}

type Times = Record<'snapshot' | 'restore' | 'reinstall', number[]>

/** Measures snapshot, restore and reinstall of a Debian guest, then a batch of creations. The systems take turns. */
export async function benchLife(
  api: BerthApi,
  raw: RawTools,
  lxd: Lxd | undefined,
  { rounds, batch }: LifeOptions,
): Promise<Figure[]> {
  const systems = new Map<string, System>([['Berth', berthSystem(api)]])
  if (lxd) systems.set('LXD', lxdSystem(lxd))
  const times = new Map([...systems.keys()].map((name) => [name, noTimes()]))
  for (const system of systems.values()) await system.create('life')
  try {
    for (let round = -1; round < rounds; round++)
      for (const [name, system] of systems)
        await measure(system, `s${round + 1}`, round < 0 ? noTimes() : times.get(name)!)
  } finally {
    for (const system of systems.values()) await system.delete('life')
  }
  const row = (text: string, key: keyof Times): Figure =>
    figure(text, 'ms', Object.fromEntries([...times].map(([name, all]) => [name, median(all[key])])))
  const names = Array.from({ length: batch }, (_, index) => `batch-${index + 1}`)
  const whole = {
    Berth: await measureBatch(api, names),
    'raw tools': (await startCrowd(raw, names, 4)).seconds,
    LXD: lxd && (await startCrowd(lxd, names, 16)).seconds,
  }
  return [
    row('snapshot of a running guest', 'snapshot'),
    row('restore of a running guest until `running`', 'restore'),
    row('reinstall until `running` (LXD: delete, create, start)', 'reinstall'),
    figure(`${batch} created by one order until all run`, 's', whole),
  ]
}

function noTimes(): Times {
  return { snapshot: [], restore: [], reinstall: [] }
}

async function measure(system: System, snapshot: string, times: Times): Promise<void> {
  times.snapshot.push(await timed(() => system.snapshot('life', snapshot)))
  times.restore.push(await timed(() => system.restore('life', snapshot)))
  await system.drop('life', snapshot)
  times.reinstall.push(await timed(() => system.reinstall('life')))
}

/** Creates guests with one request. @returns the seconds until all of them run */
async function measureBatch(api: BerthApi, names: readonly string[]): Promise<number> {
  const allRun = async (): Promise<boolean> => {
    const rows = await api.call<{ name: string; status: string }[]>('GET', '/containers')
    return names.every((name) => rows.find((row) => row.name === name)?.status === 'running')
  }
  try {
    const order = { containers: names.map((name) => ({ ...guest, name })) }
    const taken = await timed(async () => {
      await api.call('POST', '/batch-create', order)
      await waitFor(allRun, { timeoutMs: 300_000, intervalMs: 20, what: 'all to run' })
    })
    return taken / 1000
  } finally {
    for (const name of names) await remove(api, name).catch(() => undefined)
  }
}

async function remove(api: BerthApi, name: string): Promise<void> {
  await api.call('DELETE', `/containers/${name}/delete`)
  await api.untilGone(name)
}

const guest = { template_id: 'debian-12', vcpu: 1, ram_mb: 256, disk_gb: 2 }

function berthSystem(api: BerthApi): System {
  let kept = ''
  return {
    create: async (name) => {
      await api.create(name)
      await api.untilStatus(name, 'running')
    },
    snapshot: async (name) => {
      kept = (await api.call<{ id: string }>('POST', `/containers/${name}/snapshots`)).id
    },
    drop: async (name) => {
      await api.call('DELETE', `/containers/${name}/snapshots/${kept}`)
    },
    restore: async (name) => {
      await api.call('POST', `/containers/${name}/snapshots/${kept}/restore`)
      await api.untilStatus(name, 'running')
    },
    reinstall: async (name) => {
      const body = { template_id: 'debian-12', ssh_auth_mode: 'keep', force: true }
      const { task_id: task } = await api.call<{ task_id: string }>('POST', `/containers/${name}/reinstall`, body)
      await api.untilDone(task)
      await api.untilStatus(name, 'running')
    },
    delete: (name) => remove(api, name),
  }
}

function lxdSystem(lxd: Lxd): System {
  const create = async (name: string): Promise<void> => {
    await lxd.create(name)
    await lxd.start(name)
  }
  const remove = async (name: string): Promise<void> => {
    await lxd.kill(name).catch(() => undefined)
    await lxd.delete(name)
  }
  return {
    create,
    snapshot: (name, snapshot) => lxd.snapshot(name, snapshot),
    restore: (name, snapshot) => lxd.restore(name, snapshot),
    drop: (name, snapshot) => lxd.deleteSnapshot(name, snapshot),
    reinstall: async (name) => {
      await remove(name)
      await create(name)
    },
    delete: remove,
  }
}
