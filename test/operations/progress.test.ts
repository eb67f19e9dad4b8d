import { expect } from 'chai'
import type { Step } from '../../agent/operations/types.js'
import type { Change } from '../../agent/state/changes.js'
import { define, Gate, order, step, useEngines } from '../support/operations/operation-lab.js'
import { waitFor } from '../support/wait.js'

describe('the progress of operations', () => {
  const lab = useEngines()

  it('shows the current step and the finished percentage', async () => {
    const gate = new Gate()
    const steps: Step<unknown, string>[] = [
      { name: 'light', weight: 1, run: async () => undefined },
      {
        name: 'heavy',
        weight: 3,
        run: async (context) => {
          context.report(0.5, 'half of it')
          await gate.pass()
        },
      },
    ]
    const engine = lab.start([define('a', steps)])
    engine.submit(order('1', 'a', 'g'))
    await gate.entered(1)
    expect(engine.get('1')).to.include({ stage: 'heavy', progress: 25 })
    await waitFor(() => engine.get('1').stage === 'half of it')
    expect(engine.get('1')).to.include({ progress: 62, status: 'running' })
    gate.open()
    expect(await engine.wait('1')).to.include({ stage: '', progress: 100 })
  })

  it('is written to the journal only a few times, and never after the operation has ended', async () => {
    let late: (() => void) | undefined
    const chatty = step('chatty', async (context) => {
      late = () => context.report(0.1, 'late')
      for (let n = 0; n < 20_000; n++) context.report(n / 20_000, `line ${n}`)
    })
    const engine = lab.start([define('a', [chatty])])
    const heard: Change[] = []
    lab.changes.onChange((change) => heard.push(change))
    engine.submit(order('1', 'a', 'g'))
    const { revision } = await engine.wait('1')
    expect(heard.length).to.be.at.most(5)
    late?.()
    await new Promise((done) => setTimeout(done, 250))
    expect(engine.get('1')).to.include({ revision, stage: '' })
  })

  it('is listed with the newest operation first, optionally only after a given revision', async () => {
    const engine = lab.start([define('a', [])])
    for (const id of ['1', '2', '3']) engine.submit(order(id, 'a', id))
    await Promise.all(['1', '2', '3'].map((id) => engine.wait(id)))
    expect(engine.store.list().map(({ id }) => id)).to.deep.equal(['3', '2', '1'])
    const { revision } = engine.get('2')
    const since = engine.store.list(revision - 1).map(({ id }) => id)
    expect(since).to.include('2').and.not.include('1')
    expect(engine.store.list(lab.changes.revision)).to.deep.equal([])
  })
})
