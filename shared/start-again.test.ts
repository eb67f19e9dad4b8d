import { expect } from 'chai'
import { BerthError } from './errors.js'
import { startWhenPossible } from './start-again.js'

const errorOf = (code: string): Error => Object.assign(new Error(code), { code })

describe('the start of a program', () => {
  const log = { error: () => undefined }

  for (const [name, error] of [
    ['a full disk', errorOf('ENOSPC')],
    ['an error whose cause is a full disk', new BerthError('internal', 'x', 'step', { cause: errorOf('ENOSPC') })],
    ['an error of SQLite about a full disk', errorOf('SQLITE_FULL')],
    ['too many open files', errorOf('EMFILE')],
  ] as const)
    it(`is retried if it failed because of ${name}`, async () => {
      let tries = 0
      const start = async (): Promise<string> => {
        if (++tries < 3) throw error
        return 'started'
      }
      expect(await startWhenPossible(start, log, 1)).to.equal('started')
      expect(tries).to.equal(3)
    })

  for (const [name, error] of [
    ['a port that is in use', errorOf('EADDRINUSE')],
    ['a damaged journal', new BerthError('internal', 'journal_damaged', 'damaged')],
    ['an error in the code', new TypeError('x is not a function')],
  ] as const)
    it(`is not retried if it failed because of ${name}`, async () => {
      const start = (): Promise<string> => Promise.reject(error)
      expect(await startWhenPossible(start, log, 1).catch((failure: unknown) => failure)).to.equal(error)
    })
})
