import { expect } from 'chai'
import { MemorySwap } from '../../test/support/memory/memory-swap.js'
import { codeOf } from '../../test/support/gateway/test-fleet.js'
import type { AcceptedOrder, OrderContext } from '../operations/orders.js'
import { swapKind, swapSubject } from './kind.js'

const no = (): boolean => false
const asked: OrderContext = { operationId: 'o', requestedBy: 'test', isSystem: false, leaving: no, moving: no }

describe('a swap operation', () => {
  let swap: MemorySwap
  let isBusy = false
  beforeEach(() => ([swap, isBusy] = [new MemorySwap(), false]))

  const accept = async (kind: ReturnType<typeof swapKind>, action: string, sizeMb = 0) =>
    await kind.accept({ action, sizeMb }, asked)
  const kindOf = () => swapKind({ swap, busy: () => isBusy })
  const reserved = async (accepted: AcceptedOrder<unknown>): Promise<string> =>
    codeOf(Promise.resolve().then(() => accepted.reserve()))

  it('is planned with the present swap files of the host', async () => {
    const accepted = await accept(kindOf(), 'create', 64)
    expect(await reserved(accepted)).to.equal('ok')
    expect(accepted.input).to.deep.equal({ from: null, to: { slot: 0, sizeBytes: 64 << 20, enabled: true } })
  })

  it('is refused if the present swap files do not allow the change', async () => {
    const accepted = await accept(kindOf(), 'enable')
    expect([accepted.input, await reserved(accepted)]).to.deep.equal([null, 'invalid_state'])
  })

  it('is refused while another swap operation is pending or running', async () => {
    isBusy = true
    expect(await reserved(await accept(kindOf(), 'create', 64))).to.equal('task_running')
  })

  it('is refused if another swap operation has ended after the operation was planned', async () => {
    const kind = kindOf()
    const accepted = await accept(kind, 'create', 64)
    kind.settle?.({ id: 'other', subject: swapSubject, input: null }, { status: 'done' })
    expect(await reserved(accepted)).to.equal('task_running')
    expect(await reserved(await accept(kind, 'create', 64))).to.equal('ok')
  })

  for (const [action, sizeMb] of [
    ['', 64],
    ['remove', 64],
    ['create', 0],
    ['create', 63],
    ['resize', 1_048_577],
    ['resize', 1.5],
  ] as const)
    it(`is refused for the ${sizeMb === 64 ? 'unknown action' : 'action'} "${action}" with ${sizeMb === 64 ? '' : 'the invalid size of '}${sizeMb} MB`, async () => {
      expect(await codeOf(accept(kindOf(), action, sizeMb))).to.equal('invalid_field')
    })
})
