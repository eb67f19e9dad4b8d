import { expect } from 'chai'
import { ImportSlots } from './import-slots.js'

const errorOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  )

describe('slots for imports', () => {
  it('limit the imports of one caller and of all callers, and are free after an import has failed', async () => {
    const slots = new ImportSlots({ all: 3, perCaller: 2 })
    const running: ((error: Error) => void)[] = []
    const hold = (root: string): Promise<unknown> =>
      errorOf(slots.run(root, () => new Promise((_resolve, reject) => void running.push(reject))))
    const first = hold('key:1')
    void hold('key:1')
    const refused = await hold('key:1')
    expect(refused).to.have.property('code', 'resource_exhausted')
    expect(refused).to.have.property('message').that.contains('you can import at most 2 archives')
    void hold('key:2')
    expect(await hold('key:3'))
      .to.have.property('message')
      .that.contains('at most 3 archives')
    const failed = new Error('failed')
    running[0]!(failed)
    expect(await first).to.equal(failed)
    expect(await slots.run('key:1', async () => 'done')).to.equal('done')
  })
})
