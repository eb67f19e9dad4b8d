import type { ServiceError } from '@grpc/grpc-js'
import { expect } from 'chai'
import type { GuestSpec } from '../../proto/gen/berth/agent/v1/guest.js'
import { AddressedHost, bridge, guestPrefix, outside, outside6 } from '../support/network/addressed-host.js'
import { changeSetting } from '../support/host/agent-calls.js'
import { guestKinds, lxc } from '../support/guests/guest-kinds.js'
import { sh } from '../support/sh.js'
import { waitFor } from '../support/wait.js'
import { deadlineOf } from '../support/promised-time.js'

/* Tests public IPv4 and IPv6 addresses of real guests, from the request for an address to packets to it. */

const pool = Array.from({ length: 8 }, (_, i) => `198.18.7.${10 + i}`)

describe('addresses of real guests', function () {
  const host = new AddressedHost(guestKinds)

  before(async () => {
    await host.open()
    const [ipv4Pool, ipv6Prefixes] = [pool.map(host.poolItem), [host.prefixItem(guestPrefix)]]
    await host.setRouting({ ipv4Pool: { items: ipv4Pool }, ipv6Prefixes: { items: ipv6Prefixes } })
    await host.serve(undefined, 'outside')
  })
  after(() => host.destroy())

  const shown = (...args: string[]): string => sh('ip', 'address', 'show', 'dev', host.uplink, ...args)

  const addressesOf = async (uuid: string): Promise<string[]> => {
    const { publicIpv4s, ipv6Addresses } = await host.guest(uuid)
    return [...publicIpv4s, ...ipv6Addresses]
  }

  describe('from a pool of 8 addresses', () => {
    let holders: string[]

    it('are assigned to 8 of 40 concurrent requests, and the other requests leave no trace', async () => {
      const results = await Promise.all(Array.from({ length: 40 }, () => host.create({ ipv4Count: 1, start: false })))
      holders = results.filter((result) => result.includes('-'))
      expect(holders).to.have.length(8)
      expect(results.filter((result) => result === 'resource_exhausted')).to.have.length(32)
      await waitFor(() => host.watched.guests().length === 8)
      const given = host.watched.guests().flatMap(({ publicIpv4s }) => publicIpv4s)
      expect(given.sort()).to.deep.equal([...pool].sort())
      const { ipv4Assignments } = await host.readRouting()
      expect(ipv4Assignments.map(({ guestUuid }) => guestUuid).sort()).to.deep.equal([...holders].sort())
      for (const address of pool) expect(shown()).to.contain(`${address}/32`)
    })

    it('are free again, and no longer on the host, after the deletion of the guest', async () => {
      const [first = '', ...rest] = holders
      const { publicIpv4s } = await host.guest(first)
      expect(await host.create({ publicIpv4s })).to.equal('address_in_use')
      await host.power('delete', first)
      expect(shown()).to.not.contain(`${publicIpv4s[0]}/32`)
      const next = await host.create({ publicIpv4s, start: false })
      expect((await host.guest(next)).publicIpv4s).to.deep.equal(publicIpv4s)
      for (const uuid of [...rest, next]) await host.power('delete', uuid)
      expect(shown()).to.not.contain('/32')
    })

    for (const [name, spec, code] of [
      ['an address outside the pool', { publicIpv4s: ['198.18.7.99'] }, 'invalid_field'],
      ['more addresses than the pool has', { ipv4Count: 9 }, 'resource_exhausted'],
      ['an IPv6 address outside the prefixes', { ipv6Addresses: ['2001:db8:8::1'] }, 'invalid_field'],
    ] as const)
      it(`are not assigned if the request asks for ${name}`, async () => {
        expect(await host.create({ ...spec, start: false } as Partial<GuestSpec>)).to.equal(code)
        expect(host.watched.guests()).to.deep.equal([])
      })
  })

  for (const kind of guestKinds)
    describe(`of a guest of kind ${kind.name}`, () => {
      let uuid: string

      before(async () => {
        uuid = await host.create({ ...kind.spec, ipv4Count: 1, ipv6Count: 1 })
        await host.serve(uuid, 'inside')
      })

      after(() => host.power('delete', uuid))

      it('are reachable and are the guest’s source addresses (public IPv4)', async () => {
        const [address = ''] = (await host.guest(uuid)).publicIpv4s
        expect(host.answer(undefined, 'tcp', address, '8081')).to.equal(`inside ${outside}`)
        expect(host.answer(uuid, 'tcp', outside, '8081')).to.equal(`outside ${address}`)
      })

      it('are reachable from the start and are the guest’s source addresses (IPv6)', async () => {
        const { ipv6Addresses, ipv6 } = await host.guest(uuid)
        expect(ipv6Addresses).to.deep.equal([ipv6])
        expect(ipv6.startsWith('2001:db8:7:1:')).to.equal(true)
        expect(host.answer(undefined, 'tcp', ipv6, '8081')).to.equal(`inside ${outside6}`)
        expect(host.answer(uuid, 'tcp', outside6, '8081')).to.equal(`outside ${ipv6}`)
      })

      /** Waits until each address answers, because a system first checks for duplicates of a new address. */
      const allAnswer = async (addresses: readonly string[], answer: string): Promise<void> => {
        for (const address of addresses)
          await waitFor(() => host.ask(undefined, 'tcp', address, '8081') === answer, { what: address })
      }

      it('can be added while the guest runs, and still work after a restart of the guest', async () => {
        const { ipv6: first } = await host.guest(uuid)
        const leaves = async (): Promise<string> => host.ask(uuid, 'tcp', outside6, '8081')
        const value = { count: 3, addresses: [`${guestPrefix}99`] }
        const { ipv6Addresses } = await changeSetting(host.settings, { $case: 'assignIpv6', value }, { uuid })
        expect(ipv6Addresses).to.have.length(5).and.include(`${guestPrefix}99`)
        expect(ipv6Addresses[0]).to.equal(first)
        // A virtual machine may use any of its addresses as source, because cloud-init cannot choose a source address.
        const ways = (kind === lxc ? [first] : ipv6Addresses).map((address) => `outside ${address}`)
        await allAnswer(ipv6Addresses, `inside ${outside6}`)
        expect(await leaves()).to.be.oneOf(ways)
        await host.power('restart', uuid)
        await host.serve(uuid, 'again')
        await allAnswer(ipv6Addresses, `again ${outside6}`)
        expect(await leaves()).to.be.oneOf(ways)
      })

      it('are restored with their routes within 5 s if another program deletes them, even if the agent was killed', async () => {
        const { publicIpv4s, ipv6 } = await host.guest(uuid)
        for (const kill of [false, true]) {
          if (kill) {
            await host.agent.kill('SIGKILL')
            host.disconnect()
          }
          sh('ip', 'address', 'delete', `${publicIpv4s[0]}/32`, 'dev', host.uplink)
          sh('ip', '-6', 'route', 'delete', `${ipv6}/128`, 'dev', bridge)
          if (kill) await host.start()
          const isBack = (): boolean =>
            shown().includes(`${publicIpv4s[0]}/32`) && host.ask(undefined, 'tcp', ipv6, '8081') !== ''
          await waitFor(isBack, { timeoutMs: deadlineOf(5000), what: 'the addresses' })
        }
      })

      describe('if another program changed the bridge', () => {
        let closed: string
        /** Addresses of the guest `uuid`, and addresses of the guest `closed`. */
        let addresses: [string[], string[]]
        let streams: string[][]

        before(async () => {
          closed = await host.create({ ...kind.spec, ipv4Count: 1, ipv6Count: 1 })
          await host.serve(closed, 'closed')
          addresses = [await addressesOf(uuid), await addressesOf(closed)]
          await waitFor(() => addresses[1].every((address) => host.isReached(address)), {
            what: 'the guest to be closed',
          })
          const firewall = { enabled: true, defaultAction: 'DROP', rules: [] }
          await changeSetting(host.settings, { $case: 'firewall', value: firewall }, { uuid: closed })
          streams = await Promise.all(addresses[1].map((address) => host.follow(address)))
        })
        after(() => host.power('delete', closed))

        for (const [what, change] of [
          ['the bridge was deleted', ['delete', bridge]],
          ['the bridge was set down', ['set', bridge, 'down']],
          ['all guests were detached from the bridge', undefined],
        ] as const)
          it(`are reachable again within 5 s after ${what}, except addresses of a guest whose firewall drops all packets`, async () => {
            if (change) sh('ip', 'link', ...change)
            else for (const one of [uuid, closed]) sh('ip', 'link', 'set', await host.deviceOf(one), 'nomaster')
            await waitFor(() => addresses[0].every((address) => host.isReached(address)), {
              timeoutMs: deadlineOf(5000),
              what: 'the addresses',
            })
            expect(host.answer(uuid, 'tcp', outside, '8081')).to.contain('outside ')
            expect(host.answer(uuid, 'tcp', outside6, '8081')).to.contain('outside ')
            for (const lines of streams) {
              const count = lines.length
              await waitFor(() => lines.length > count + 100, { what: 'the requests in the meantime' })
              expect(lines.filter((line) => line.endsWith(' 1'))).to.deep.equal([])
            }
            expect(addresses[1].some((address) => host.isReached(address))).to.equal(false)
          })
      })

      it('cannot be removed from the pool', async () => {
        const refusal = await host.setRouting({ ipv4Pool: { items: [] } }).catch((error: ServiceError) => error)
        expect((refusal as ServiceError).metadata.get('berth-code')).to.deep.equal(['address_in_use'])
        expect((await host.readRouting()).ipv4Pool).to.have.length(8)
      })
    })
})
