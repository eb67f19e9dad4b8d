import { Writable } from 'node:stream'
import { expect } from 'chai'
import { generateSync } from 'otplib'
import { pino } from 'pino'
import { Browser, makeAdmin, password } from '../../support/gateway/browser.js'
import { startTestGateway } from '../../support/gateway/test-gateway.js'

describe('passwords, second factors and sessions', () => {
  it('do not appear in logs, audit entries and metrics, or in plain text in the store', async () => {
    const lines: string[] = []
    const sink = new Writable({
      write: (chunk: Buffer, _, done) => {
        lines.push(chunk.toString())
        done()
      },
    })
    const gateway = await startTestGateway({ log: pino({ level: 'trace' }, sink) })
    try {
      const secrets = new Map([['password', password]])
      const keep = (name: string, value: unknown) => void secrets.set(name, String(value))
      const link = (await gateway.access.accounts.admins.firstLink())!
      keep('link', link)
      const ada = new Browser(gateway)
      await ada.request('POST', '/setup', { body: { token: link, username: 'ada', password } })
      keep('session', ada.token)
      keep('csrf', await ada.readCsrf())
      keep('device', ada.cookies.get('berth-device'))
      await makeAdmin(gateway, 'bob', 'another horse battery')
      keep('second password', 'another horse battery')
      const invited = await ada.request('POST', '/admins', { body: { username: 'carol' } })
      keep('invitation', invited.body.data.setup_token)
      await new Browser(gateway).login('ada', 'wrong horse battery')
      keep('wrong password', 'wrong horse battery')
      await new Browser(gateway).login('typed passphrase!', 'x')
      keep('password as a name', 'typed passphrase!')
      const next = 'staple paper clip 7'
      await ada.request('POST', '/account/password', { body: { current_password: password, password: next } })
      keep('new password', next)
      keep('session after it', ada.token)
      await ada.readCsrf()
      const begun = await ada.request('POST', '/account/totp')
      const secret = begun.body.data.secret as string
      keep('totp secret', secret)
      const code = generateSync({ secret, epoch: Math.floor(Date.now() / 1000) - 30 })
      const confirmed = await ada.request('POST', '/account/totp/confirm', { body: { code } })
      const codes = confirmed.body.data.recovery_codes as string[]
      for (const [at, recovery] of codes.entries()) keep(`recovery code ${at}`, recovery)
      const half = new Browser(gateway)
      await half.login('ada', next)
      keep('incomplete login', half.token)
      expect((await half.request('POST', '/login/otp', { body: { recovery_code: codes[0] } })).status).to.equal(200)
      await ada.readCsrf()
      await ada.request('POST', '/account/confirm', { body: { password: next } })
      await ada.request('POST', '/login', { body: '{"username":"ada","password":"another horse battery"' })
      const { token } = await gateway.access.accounts.admins.recover('bob')
      keep('recovery link', token)
      const kept = {
        'the log': lines.join(''),
        'audit entries': (await gateway.request('GET', '/audit-logs/export')).text,
        'the login log': (await gateway.request('GET', '/login-logs/export')).text,
        metrics: (await gateway.request('GET', '/metrics')).text,
        'the store': await gateway.redis.readAof(),
      }
      for (const [where, text] of Object.entries(kept)) {
        if (where !== 'metrics') expect(text.includes('ada'), where).to.equal(true)
        for (const [name, value] of secrets) {
          expect(value.length, name).to.be.greaterThan(8)
          for (const form of [value, value.replaceAll('-', ''), Buffer.from(value).toString('base64')])
            expect(text.includes(form), `${name} in ${where}`).to.equal(false)
        }
      }
    } finally {
      await gateway.close()
    }
  })
})
