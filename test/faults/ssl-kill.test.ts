import { expect } from 'chai'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { RedisProcess } from '../../gateway/store/redis-process.js'
import { factsOf } from '../../gateway/tls/certificate.js'
import { endLeftGateway, GatewayProcess } from '../support/gateway/gateway-process.js'
import { freePort } from '../support/ports.js'
import { silentLog } from '../support/gateway/redis.js'
import { scratchDirectory } from '../support/scratch.js'
import { shownCertificate } from '../support/gateway/tls-client.js'
import { TestAuthority } from '../support/gateway/tls-material.js'
import { waitFor } from '../support/wait.js'

const kills = Number(process.env['BERTH_TEST_KILLS'] ?? 9)
const name = 'panel.example'
/** Number of rounds at the end in which the kill comes only after the change was acknowledged. */
const answered = 3

/** Kills a real gateway and its Redis while the certificate is replaced. */
describe(`the gateway and its Redis, killed ${kills} times while the certificate is replaced`, function () {
  let gateway: GatewayProcess
  let authority: TestAuthority
  let redis: RedisProcess
  let port = 0
  let wipe: () => void

  before(async () => {
    const directory = '/var/tmp/btest-ssl-kill/gateway'
    await endLeftGateway(directory)
    wipe = scratchDirectory('btest-ssl-kill').wipe
    port = await freePort()
    authority = await TestAuthority.create()
    gateway = await GatewayProcess.create(directory, '127.0.0.1', { tls_listen: `127.0.0.1:${port}`, http_listen: '' })
    const [stateDir, runDir] = [join(directory, 'state'), join(directory, 'run')]
    redis = new RedisProcess({ program: '/usr/bin/redis-server', stateDir, runDir, log: silentLog })
    gateway.start()
    await gateway.ready()
  })
  after(async () => {
    await gateway?.close()
    wipe?.()
  })

  /** Begins to replace the certificate. @returns its fingerprint, and the response's status (0: no response) */
  async function change(): Promise<{ wanted: string; work: Promise<number> }> {
    const { certPem, keyPem } = await authority.issue(name)
    const pems = { cert_pem: `${certPem}${authority.rootPem}`, key_pem: keyPem }
    const work = gateway.request('PUT', '/ssl', { body: { mode: 'uploaded', target: name, ...pems } }).then(
      ({ status }) => status,
      () => 0,
    )
    return { wanted: factsOf(certPem).fingerprint, work }
  }

  /** Repeats a change until it is acknowledged. The gateway rejects changes while Redis restarts. */
  const acknowledgedChange = (): ReturnType<typeof change> =>
    waitFor(
      async () => {
        const ordered = await change()
        return (await ordered.work) === 200 ? ordered : undefined
      },
      { what: 'a change that is acknowledged' },
    )

  interface Ssl {
    readonly data: { readonly certificate: { readonly fingerprint: string } | null }
  }
  const current = async (): Promise<string> =>
    ((await gateway.request('GET', '/ssl')).body as Ssl).data.certificate?.fingerprint ?? ''

  async function kill(round: number): Promise<void> {
    if (round % 3 !== 0) await gateway.kill()
    if (round % 3 !== 1) {
      const pid = await redis.findPid()
      if (pid !== undefined) process.kill(pid, 'SIGKILL')
    }
    if (round % 3 !== 0) gateway.start()
    await gateway.ready()
  }

  it('keep all acknowledged changes, and serve the certificate of the last change', async () => {
    expect(await (await change()).work).to.equal(200)
    const first = await change()
    const begunMs = performance.now()
    expect(await first.work).to.equal(200)
    const longestMs = performance.now() - begunMs
    let before = first.wanted
    const outcomes = { acknowledged: 0, unknown: 0, done: 0 }
    for (let round = 0; round < kills; round++) {
      const late = round >= kills - answered
      const { wanted, work } = await (late ? acknowledgedChange() : change())
      if (!late) await delay((round / kills) * longestMs)
      const [status] = await Promise.all([work, kill(round)])
      const now = await waitFor(() => current().catch(() => ''), { what: 'its settings' })
      if (status === 200) {
        outcomes.acknowledged++
        expect(now, `round ${round}: acknowledged`).to.equal(wanted)
      } else {
        outcomes.unknown++
        if (now === wanted) outcomes.done++
        expect([before, wanted], `round ${round}: one of both`).to.include(now)
      }
      const shown = () =>
        shownCertificate({ host: '127.0.0.1', port }, name).then(
          ({ fingerprint256 }) => fingerprint256,
          () => '',
        )
      await waitFor(async () => (await shown()) === now, { what: () => `round ${round}: shows ${now}` })
      before = now
    }
    console.log(`      ${JSON.stringify(outcomes)}`)
    expect(outcomes.acknowledged, 'acknowledged').to.be.at.least(answered)
    expect(outcomes.unknown, 'cut off').to.be.greaterThan(0)
    const { body } = await gateway.request('GET', '/audit-logs?action=ssl.update&per_page=200')
    const entries = (body as { data: { success: boolean; detail: string }[] }).data
    expect(entries.length).to.be.greaterThan(outcomes.acknowledged)
    expect(entries.filter(({ success }) => success).length).to.be.at.least(outcomes.acknowledged)
  })
})
