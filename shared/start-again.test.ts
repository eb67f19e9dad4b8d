import { expect } from 'chai'
import { BerthError } from './errors.js'
import { startWhenPossible } from './start-again.js'

const errorOf = (code: string): Error => Object.assign(new Error(code), { code })

describe("a program's start", () => {
  const log = { error: () => undefined }

  for (const [name, error] of [
    ['a full disk', errorOf('ENOSPC')],
    ['a full disk below another error', new BerthError('internal', 'x', 'step', { cause: errorOf('ENOSPC') })],
    ['a full disk, as SQLite reports it', errorOf('SQLITE_FULL')],
    ['too many open files', errorOf('EMFILE')],
  ] as const)
    it(`is retried after ${name}`, async () => {
      let tries = 0
      const start = async (): Promise<string> => {
        if (++tries < 3) throw error
        return 'started'
      }
      expect(await startWhenPossible(start, log, 1)).to.equal('started')
      expect(tries).to.equal(3)
    })

  for (const [name, error] of [
    ['a port in use', errorOf('EADDRINUSE')],
    ['a damaged journal', new BerthError('internal', 'journal_damaged', 'damaged')],
    ['a bug', new TypeError('x is not a function')],
  ] as const)
    it(`is not retried after ${name}`, async () => {
      const start = (): Promise<string> => Promise.reject(error)
      expect(await startWhenPossible(start, log, 1).catch((failure: unknown) => failure)).to.equal(error)
    })
})
