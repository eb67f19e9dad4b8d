import type { BerthApi } from './berth-api.js'
import { figure, median, timed, type Figure } from './figures.js'
import type { Lxd } from './lxd.js'
import type { RawTools } from './raw-tools.js'

interface System {
  /** Creates a guest and waits until it runs. */
  create(name: string): Promise<void>
  stop(name: string): Promise<void>
  start(name: string): Promise<void>
  delete(name: string): Promise<void>
}

interface Times {
  create: number[]
  stop: number[]
  start: number[]
  delete: number[]
}

/**
 * Measures Debian guests in each system, one guest at a time: create until it runs, forced stop, start, delete. Every
 * system has a turn in each round, so that other work of the machine affects all systems.
 */
export async function benchLifecycle(
  api: BerthApi,
  raw: RawTools,
  lxd: Lxd | undefined,
  rounds: number,
): Promise<Figure[]> {
  const systems = new Map<string, System>([
    ['Berth', berthSystem(api)],
    ['raw tools', rawSystem(raw)],
  ])
  if (lxd) systems.set('LXD', lxdSystem(lxd))
  const times = new Map([...systems.keys()].map((name) => [name, { create: [], stop: [], start: [], delete: [] }]))
  for (let round = -1; round < rounds; round++)
    for (const [name, system] of systems)
      await measure(system, `b${round + 1}`, round < 0 ? undefined : times.get(name))
  const row = (name: string, key: keyof Times): Figure =>
    figure(name, 'ms', Object.fromEntries([...times].map(([system, t]) => [system, median(t[key])])))
  return [
    row('create a Debian guest until `running`', 'create'),
    row('stop (forced) until `stopped`', 'stop'),
    row('start until `running`', 'start'),
    row('delete until gone', 'delete'),
  ]
}

/** @param times lists to which the measured durations are added; undefined for a warm-up */
async function measure(system: System, name: string, times: Times | undefined): Promise<void> {
  const taken = {
    create: await timed(() => system.create(name)),
    stop: await timed(() => system.stop(name)),
    start: await timed(() => system.start(name)),
  }
  await system.stop(name)
  const deleted = await timed(() => system.delete(name))
  if (!times) return
  times.create.push(taken.create)
  times.stop.push(taken.stop)
  times.start.push(taken.start)
  times.delete.push(deleted)
}

function berthSystem(api: BerthApi): System {
  const power = async (name: string, action: string, status: string): Promise<void> => {
    await api.call('POST', `/containers/${name}/${action}`, { force: true })
    await api.untilStatus(name, status)
  }
  return {
    create: async (name) => {
      await api.create(name)
      await api.untilStatus(name, 'running')
    },
    stop: (name) => power(name, 'stop', 'stopped'),
    start: (name) => power(name, 'start', 'running'),
    delete: async (name) => {
      await api.call('DELETE', `/containers/${name}/delete`)
      await api.untilGone(name)
    },
  }
}

function rawSystem(raw: RawTools): System {
  return {
    create: async (name) => {
      await raw.create(name)
      await raw.start(name)
    },
    stop: (name) => raw.kill(name),
    start: (name) => raw.start(name),
    delete: (name) => raw.delete(name),
  }
}

function lxdSystem(lxd: Lxd): System {
  return {
    create: async (name) => {
      await lxd.create(name)
      await lxd.start(name)
    },
    stop: (name) => lxd.kill(name),
    start: (name) => lxd.start(name),
    delete: (name) => lxd.delete(name),
  }
}
