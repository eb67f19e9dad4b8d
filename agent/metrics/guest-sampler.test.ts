import { expect } from 'chai'
import { pino } from 'pino'
import type { GuestContext } from '../guests/context.js'
import type { GuestRecord } from '../guests/record/record.js'
import { waitFor } from '../../test/support/wait.js'
import { GuestSampler } from './guest-sampler.js'

const sample = { cpuUsec: 1, memoryBytes: 1, rxBytes: 0, txBytes: 0, runnable: 0 }

type Disks = Map<string, number>
const running = (uuids: readonly string[]) =>
  uuids.map((uuid) => ({ uuid, state: 'running' as const, pid: 1, startTime: 1 }))

function samplerOf(
  {
    usage = () => Promise.resolve(sample),
    diskUsage = () => Promise.resolve(new Map<string, number>()),
  }: {
    usage?: (machine: { uuid: string }) => Promise<typeof sample>
    diskUsage?: (uuids?: readonly string[]) => Promise<Disks>
  },
  now: () => number,
): GuestSampler {
  const spec = { virtualization: 'lxc', limits: { vcpuMilli: 1 } }
  return new GuestSampler({
    log: pino({ level: 'silent' }),
    now,
    volumes: { usage: diskUsage },
    store: { find: (uuid: string) => ({ uuid, kind: 'lxc', spec }) },
    machines: { driverOf: () => ({ usage }), of: (record: { uuid: string }) => record },
  } as unknown as GuestContext)
}

describe('the sampler of the guests’ usage', () => {
  it('lets other work run between two guests', async () => {
    const order: string[] = []
    const usage = (machine: { uuid: string }): Promise<typeof sample> => {
      order.push(machine.uuid)
      setImmediate(() => order.push('other'))
      return Promise.resolve(sample)
    }
    const sampler = samplerOf({ usage }, () => 1)
    sampler.observed(running(['a', 'b', 'c']))
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(order).to.deep.equal(['a', 'other', 'b', 'other', 'c', 'other'])
  })

  it('reads the disk usage of all guests once a minute, and sooner for a new guest', async () => {
    const disks: Disks = new Map([['a', 1]])
    let [nowMs, reads] = [100_000, 0]
    const diskUsage = (): Promise<Disks> => {
      reads++
      return Promise.resolve(new Map(disks))
    }
    const sampler = samplerOf({ diskUsage }, () => nowMs)
    const readsAfter = async (ms: number): Promise<number> => {
      nowMs += ms
      await sampler.sample()
      return reads
    }
    sampler.observed(running(['a']))
    await waitFor(() => sampler.usage('a').sampledAtMs === nowMs)
    expect(await readsAfter(59_000)).to.equal(1)
    disks.set('b', 2)
    sampler.observed(running(['a', 'b']))
    await waitFor(() => sampler.usage('b').sampledAtMs === nowMs)
    expect([reads, sampler.usage('b').diskBytes]).to.deep.equal([2, 2])
    expect(await readsAfter(59_000)).to.equal(2)
    await waitFor(async () => (await readsAfter(1000)) === 3)
  })

  it('reads the disk of one guest on request, but not again within the next two seconds', async () => {
    const asked: (readonly string[] | undefined)[] = []
    let bytes = 7
    const diskUsage = (uuids?: readonly string[]): Promise<Disks> => {
      asked.push(uuids)
      return Promise.resolve(new Map([['a', bytes++]]))
    }
    const sampler = samplerOf({ diskUsage }, () => 100_000)
    const record = { uuid: 'a', spec: { virtualization: 'lxc' } } as GuestRecord
    const reads = await Promise.all([1, 2, 3].map(() => sampler.freshUsage(record)))
    expect(reads.map(({ diskBytes }) => diskBytes)).to.deep.equal([7, 7, 7])
    expect(asked).to.deep.equal([['a']])
    await waitFor(async () => (await sampler.freshUsage(record)).diskBytes === 8, { what: 'a new figure' })
  })
})
