import { Writable } from 'node:stream'
import { expect } from 'chai'
import { createLogger } from './logging.js'

function logged(write: (log: ReturnType<typeof createLogger>) => void): string {
  let text = ''
  const destination = new Writable({
    write(chunk: Buffer, _encoding, done) {
      text += chunk.toString()
      done()
    },
  })
  write(createLogger({ name: 'test', level: 'info', destination }))
  return text
}

describe('the log', () => {
  const secret = 'Hunter2-very-secret'

  for (const [name, fields] of [
    ['a password', { password: secret }],
    ['a password in a request body', { body: { ssh_password: secret } }],
    ['authentication headers', { request: { headers: { authorization: secret, 'x-api-key': secret } } }],
    ['an API key', { key: secret, created: { key: secret } }],
    ['a ticket in a query', { query: { ticket: secret } }],
  ] as const)
    it(`hides ${name}`, () => expect(logged((log) => log.info(fields, 'x'))).not.to.include(secret))

  it('hides API keys and join tokens inside any text', () => {
    const key = 'berth_sk_' + 'aB3'.repeat(16)
    const text = logged((log) => {
      log.info(`the key ${key} was sent`)
      log.error({
        err: new Error(`berth_jt_${'x1'.repeat(9)}.${'x1'.repeat(9)} is spent`, { cause: new Error(key) }),
      })
    })
    expect(text).to.include('berth_sk_********').and.to.include('berth_jt_********')
    expect(text).not.to.include('aB3aB3').and.not.to.include('x1x1')
  })

  it('writes an error together with its causes', () => {
    const text = logged((log) => log.error({ err: new Error('outer', { cause: new Error('inner') }) }, 'failed'))
    expect(text).to.include('outer').and.to.include('inner')
  })
})
