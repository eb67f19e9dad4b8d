import { expect } from 'chai'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Lease } from '../../gateway/store/lease.js'
import { Store } from '../../gateway/store/store.js'
import { silentLog } from '../support/gateway/redis.js'
import { masterName, RedisLab } from '../support/gateway/redis-lab.js'
import { waitFor } from '../support/wait.js'

const parent = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()

describe('a store with TLS, client certificates, users and passwords', () => {
  let directory: string
  let lab: RedisLab
  const file = (name: string): string => join(directory, name)

  before(async () => {
    directory = mkdtempSync(join(parent, 'btest-redis-access-'))
    writeFileSync(file('password'), 'secret-of-berth\n')
    writeFileSync(file('sentinel-password'), 'secret-of-sentinels\n')
    const tls = { caFile: file('cert.pem'), certificateFile: file('cert.pem'), keyFile: file('key.pem') }
    lab = await RedisLab.start({
      lines: [
        'tls-port',
        `tls-cert-file ${file('cert.pem')}`,
        `tls-key-file ${file('key.pem')}`,
        `tls-ca-cert-file ${file('cert.pem')}`,
        'tls-replication yes',
        'user lab on >secret-of-lab ~* &* +@all',
      ],
      redisLines: [
        'user default off',
        // As in docs/redis.md, except for the prefix of the keys.
        'user berth on >secret-of-berth ~btest:* &btest:* +@all -@admin -@dangerous -@scripting +role +info',
        'user replica on >secret-of-replicas +psync +replconf +ping',
        'user sentinel on >secret-for-sentinels allchannels +multi +exec +slaveof +ping +subscribe +publish +config|rewrite +role +info +client|setname +client|kill +script|kill',
        'masteruser replica',
        'masterauth secret-of-replicas',
      ],
      sentinelLines: [
        'requirepass secret-of-sentinels',
        'sentinel sentinel-pass secret-of-sentinels',
        `sentinel auth-user ${masterName} sentinel`,
        `sentinel auth-pass ${masterName} secret-for-sentinels`,
      ],
      clientOptions: [
        ...['--user', 'lab', '--pass', 'secret-of-lab', '--no-auth-warning', '--tls'],
        ...['--cacert', file('cert.pem'), '--cert', file('cert.pem'), '--key', file('key.pem')],
      ],
      access: { username: 'berth', passwordFile: file('password'), tls },
      sentinelAccess: { username: '', passwordFile: file('sentinel-password'), tls },
      prepare: (addresses) => makeCertificate(addresses),
    })
  })
  after(async () => {
    await lab.stop()
    rmSync(directory, { recursive: true })
  })

  /** Creates a self-signed certificate for all addresses. */
  const makeCertificate = (addresses: readonly string[]): void => {
    const names = addresses.map((address) => `IP:${address}`).join()
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', file('key.pem')]
    const text = ['-subj', '/CN=lab', '-addext', `subjectAltName=${names}`, '-days', '2', '-out', file('cert.pem')]
    execFileSync('openssl', ['req', '-x509', ...key, ...text], { stdio: 'ignore' })
  }

  const open = (): Store => {
    const store = new Store({ ...lab.server, prefix: 'btest:', log: silentLog })
    store.onInvalidate(store.key('a'), () => undefined)
    store.start()
    return store
  }

  it('allows reads, writes and leases, reports the replication, and is usable after a failover', async () => {
    const store = open()
    try {
      await store.connected(60_000)
      await store.run('write', (client) => client.set('btest:a', '1'))
      expect(await new Lease(store, 'work', 10_000).take()).to.equal(true)
      await waitFor(async () => (await store.readReplication()).replicas === 2, { what: 'two replicas' })
      await lab.kill(await lab.master())
      await waitFor(() => store.failovers === 1 && store.ready(), { what: 'the new master' })
      expect(await store.run('read', (client) => client.get('btest:a'))).to.equal('1')
    } finally {
      await store.close()
    }
  })

  it('connects again when its password file changes', async () => {
    writeFileSync(file('password'), 'wrong\n')
    const store = open()
    try {
      await waitFor(() => store.reason().includes('WRONGPASS'), { what: 'the refusal' })
      writeFileSync(file('password'), 'secret-of-berth\n')
      await waitFor(() => store.ready(), { what: 'the connection' })
    } finally {
      await store.close()
    }
  })
})
