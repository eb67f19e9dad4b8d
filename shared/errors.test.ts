import { expect } from 'chai'
import { asStep, BerthError, describeError } from './errors.js'

describe('an error in a step', () => {
  it('names the step if the error has no stable code', async () => {
    const thrownBy = (cause: Error): Promise<unknown> =>
      asStep('attach v1', () => Promise.reject(cause))().catch((error: unknown) => error)
    expect(describeError(await thrownBy(new Error('refused')))).to.equal('could not attach v1: refused')
    const coded = new BerthError('conflict', 'port_conflict', 'the port is in use')
    expect(await thrownBy(coded)).to.equal(coded)
  })

  it('names the step even if its function throws synchronously', async () => {
    const work = (): Promise<void> => {
      throw new Error('refused')
    }
    const error: unknown = await asStep('attach v1', work)().catch((thrown: unknown) => thrown)
    expect(describeError(error)).to.equal('could not attach v1: refused')
  })
})
