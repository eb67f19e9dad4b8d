import { expect } from 'chai'
import { pino } from 'pino'
import { waitFor } from '../../../test/support/wait.js'
import { Ipv6Announcements } from './ipv6-announcements.js'

const proxied = (...addresses: string[]) =>
  addresses.map((address) => ({ address, mac: '02:00:00:00:00:01', proxyOn: 'eth0' }))

describe('the announcements of IPv6 addresses', () => {
  const [one, other] = ['2001:db8::1', '2001:db8::2']
  let sent: string[][]
  let send: () => Promise<void>
  let announcements: Ipv6Announcements
  beforeEach(() => {
    ;[sent, send] = [[], () => Promise.resolve()]
    announcements = new Ipv6Announcements({
      log: pino({ level: 'silent' }),
      pauseMs: 1,
      announce: (_device, addresses) => {
        sent.push([...addresses])
        return send()
      },
    })
  })
  afterEach(() => announcements.close())

  it('are sent twice, even if the first one fails', async () => {
    send = () => Promise.reject(new Error('the interface is down'))
    announcements.add(proxied(one))
    await waitFor(() => sent.length === 2)
    expect(sent).to.deep.equal([[one], [one]])
  })

  it('are not sent for addresses for which the host already answers', async () => {
    announcements.replace(proxied(one))
    announcements.add(proxied(one, other))
    await waitFor(() => sent.length === 2)
    expect(sent).to.deep.equal([[other], [other]])
  })

  it('are not repeated for an address that the host has lost, and are sent when the address returns', async () => {
    send = () => Promise.resolve(announcements.replace(proxied(other)))
    announcements.add(proxied(one, other))
    await waitFor(() => sent.length === 2)
    expect(sent).to.deep.equal([[one, other], [other]])
    announcements.add(proxied(one, other))
    await waitFor(() => sent.length === 3)
    expect(sent[2]).to.deep.equal([one])
  })

  it('have ended when the host gives up an address', async () => {
    let end = (): void => undefined
    send = () => new Promise((resolve) => (end = resolve))
    announcements.add(proxied(one))
    await waitFor(() => sent.length === 1)
    let isForgotten = false
    const forgotten = announcements.forget([one]).then(() => (isForgotten = true))
    await new Promise((resolve) => setImmediate(resolve))
    expect(isForgotten).to.equal(false)
    end()
    await forgotten
  })
})
