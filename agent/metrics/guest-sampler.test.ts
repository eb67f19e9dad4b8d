import { expect } from 'chai'
import { pino } from 'pino'
import type { GuestContext } from '../guests/context.js'
import { GuestSampler } from './guest-sampler.js'

const sample = { cpuUsec: 1, memoryBytes: 1, rxBytes: 0, txBytes: 0, runnable: 0 }

describe('guest sampler', () => {
  it('lets others run between two guests', async () => {
    const order: string[] = []
    const usage = (machine: { uuid: string }): Promise<typeof sample> => {
      order.push(machine.uuid)
      setImmediate(() => order.push('other'))
      return Promise.resolve(sample)
    }
    const driver = { kind: 'lxc', usage, diskUsage: () => Promise.resolve(new Map()) }
    const context = {
      log: pino({ level: 'silent' }),
      now: () => 1,
      drivers: { lxc: driver },
      store: {
        find: (uuid: string) => ({
          uuid,
          kind: 'lxc',
          spec: { virtualization: 'lxc', limits: { vcpuMilli: 1 } },
        }),
      },
      machineOf: (record: { uuid: string }) => record,
    } as unknown as GuestContext
    const sampler = new GuestSampler(context)
    sampler.observed(['a', 'b', 'c'].map((uuid) => ({ uuid, state: 'running', pid: 1, startTime: 1 })))
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(order).to.deep.equal(['a', 'other', 'b', 'other', 'c', 'other'])
  })
})
