import { expect } from 'chai'
import type { GuestContext } from '../context.js'
import type { StepContext } from '../../operations/types.js'
import { importDisk } from './import-disk.js'

type Context = Pick<GuestContext, 'imports' | 'machines' | 'store' | 'volumes'>

describe('the disk of an imported guest', () => {
  it('is durable before the sender of its archive learns that all files were received', async () => {
    const calls: string[] = []
    const note = (name: string) => async (): Promise<void> => void calls.push(name)
    const context = {
      store: { get: () => ({ uuid: 'u', spec: { limits: { diskGb: 1 } } }) },
      volumes: {
        ...{ has: async () => false, discardNext: async () => false, nextPathOf: () => '/next' },
        ...{ prepare: note('prepare'), exchange: note('exchange') },
      },
      machines: { driverOf: () => ({ adopt: note('adopt'), volumeLimitBytes: () => 0 }), of: () => ({}) },
      imports: {
        copy: note('copy'),
        complete: async (_id: string, keep: () => Promise<void>) => {
          await keep()
          calls.push('complete')
        },
      },
    } as unknown as Context
    const step = {
      ...{ subject: { kind: 'guest', id: 'u' }, input: { importId: 'i' }, signal: new AbortController().signal },
      yieldWhile: (work: Promise<unknown>) => work,
    } as unknown as StepContext<{ readonly importId?: string }>
    await importDisk(context, step)
    expect(calls).to.deep.equal(['prepare', 'copy', 'adopt', 'exchange', 'complete'])
  })
})
