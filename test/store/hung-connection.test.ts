import { expect } from 'chai'
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { Store } from '../../gateway/store/store.js'
import { silentLog, startTestRedis, type TestRedis } from '../support/gateway/redis.js'
import { codeOf } from '../support/gateway/test-fleet.js'
import { waitFor } from '../support/wait.js'

describe('a store whose connection hangs', () => {
  let redis: TestRedis
  let proxy: Server
  let store: Store
  const sockets = new Set<Socket>()
  /** Name of a Redis command. A connection that sends it gets no answers any more. "": all connections work. */
  let hanging = ''
  before(async () => {
    redis = await startTestRedis()
    proxy = createServer((near) => forward(near))
    proxy.listen(0, '127.0.0.1')
    await once(proxy, 'listening')
  })
  beforeEach(async () => {
    const url = `redis://127.0.0.1:${(proxy.address() as AddressInfo).port}`
    store = new Store({ url, prefix: 'btest:', log: silentLog, confirmingReplicas: 1 })
    await store.connected(60_000)
  })
  afterEach(async () => {
    hanging = ''
    await store.close()
  })
  after(async () => {
    for (const socket of sockets) socket.destroy()
    proxy.close()
    await redis.stop()
  })

  /** Connects a client to the server. The server gets nothing after the client has sent the command in `hanging`. */
  const forward = (near: Socket): void => {
    const far = connect(new URL(redis.url).pathname)
    for (const socket of [near, far]) {
      sockets.add(socket)
      socket.on('error', () => socket.destroy())
    }
    near.on('close', () => far.destroy())
    far.on('close', () => near.destroy())
    let isHung = false
    near.on('data', (data) => {
      isHung ||= hanging !== '' && data.toString('latin1').includes(hanging)
      if (!isHung) far.write(data)
    })
    far.on('data', (data) => near.write(data))
  }

  const write = (): Promise<unknown> => store.run('write', (client) => client.set('btest:a', '1'))
  const transact = (): Promise<unknown> =>
    store.transact('change', async (client) => {
      await client.watch('btest:a')
      await client.multi().set('btest:a', '1').exec()
    })
  const cases: [string, string, () => Promise<unknown>][] = [
    ['a transaction', 'WATCH', transact],
    ['the confirmation of a write', 'WAIT', write],
  ]
  for (const [name, command, change] of cases)
    it(`reports a failure of ${name}, and connects again`, async () => {
      let downs = 0
      store.on('down', () => downs++)
      hanging = command
      expect(await codeOf(change())).to.equal('store_unavailable')
      await waitFor(() => downs > 0, { what: 'the connection is dropped' })
      hanging = ''
      await waitFor(() => store.ready(), { what: 'another connection' })
      expect(await store.run('read', (client) => client.get('btest:b'))).to.equal(null)
    })
})
