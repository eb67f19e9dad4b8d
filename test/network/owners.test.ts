import { expect } from 'chai'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { GuestNetwork } from '../../agent/network/contract.js'
import { clientAddress, hostAddress } from '../support/network/network-lab.js'
import { NetworkPair, tcp, udp } from '../support/network/network-pair.js'
import { waitFor } from '../support/wait.js'

/* Tests that no connection of a guest continues after its ports and addresses were assigned to another guest. */

const deleteAgain = 'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do conntrack -D "$0" "$1"; done'

describe('an agent', function () {
  const pair = new NetworkPair('btestown')
  const { lab, a, b, inA } = pair

  before(() => pair.open())
  after(() => lab.remove())

  function flowsOf(address: string): string {
    const from = lab.in(lab.host, 'conntrack', '-L', '--orig-src', address)
    return from + lab.in(lab.host, 'conntrack', '-L', '--reply-src', address)
  }

  describe('when a port or an address moves to another guest', () => {
    const attach = (guest: GuestNetwork): Promise<unknown> => pair.agent.call('attach', guest)

    it('replaces the port mappings of a guest if the guest is attached again with other mappings', async () => {
      await attach({ ...a, portMappings: [tcp(20003)] })
      expect(lab.answer(lab.client, `tcp:${hostAddress}:20003`)).to.equal(`bt11 ${clientAddress}`)
      expect(lab.ask(lab.client, `tcp:${hostAddress}:20001`)).to.equal('')
      await attach(a)
      expect(lab.in(lab.host, 'nft', 'list', 'map', 'ip', 'berth', 'ports')).to.not.include('20003')
    })

    it('leads an existing client of a port to the new guest', async () => {
      const asked = (): string => lab.answer(lab.client, `udp:${hostAddress}:20001`, { sport: 5353 })
      expect(asked()).to.equal(`bt11 ${clientAddress}`)
      await pair.agent.call('detach', a)
      await attach({ ...b, portMappings: [tcp(20002), udp(20001)] })
      expect(asked()).to.equal(`bt12 ${clientAddress}`)
      await attach(b)
      await attach(a)
      expect(asked()).to.equal(`bt11 ${clientAddress}`)
    })

    it('leads clients to the new guest even if the former guest was never detached', async () => {
      await attach({ ...b, portMappings: [tcp(20002), tcp(20001)] })
      expect(lab.answer(lab.client, `tcp:${hostAddress}:20001`)).to.equal(`bt12 ${clientAddress}`)
      await attach(b)
      await attach(a)
      expect(lab.answer(lab.client, `tcp:${hostAddress}:20001`)).to.equal(`bt11 ${clientAddress}`)
    })

    it('serves a client even if the client sent datagrams before the mapping existed', async () => {
      const asked = (): string => lab.ask(lab.client, `udp:${hostAddress}:20009`, { sport: 5454, timeoutSeconds: 0.3 })
      expect(asked()).to.equal('')
      await attach({ ...a, portMappings: [...a.portMappings, udp(20009)] })
      expect(lab.answer(lab.client, `udp:${hostAddress}:20009`, { sport: 5455 })).to.equal(`bt11 ${clientAddress}`)
      await waitFor(() => asked() === `bt11 ${clientAddress}`)
      await attach(a)
    })

    it('ends only the connections of a removed mapping, even if no agent ran during the removal', async () => {
      const asked = (port: number): string => lab.answer(lab.client, `udp:${hostAddress}:${port}`, { sport: 5457 })
      await attach({ ...a, portMappings: [...a.portMappings, udp(20010)] })
      for (const port of [20001, 20010]) expect(asked(port)).to.equal(`bt11 ${clientAddress}`)
      await pair.agent.end()
      lab.in(lab.host, 'nft', 'delete element ip berth ports { udp . 20010 }')
      pair.agent = lab.agent()
      await pair.agent.ensure(pair.all)
      const flows = flowsOf(a.ipv4)
      expect(flows).to.contain('dport=20001').and.not.contain('dport=20010')
    })

    it('ends the connections of the former guest', async () => {
      expect(lab.answer(inA, `udp:${clientAddress}:53`, { sport: 4444 })).to.equal(`client ${hostAddress}`)
      expect(flowsOf(a.ipv4)).to.not.equal('')
      await pair.agent.call('detach', a)
      await attach(a)
      expect(flowsOf(a.ipv4)).to.equal('')
    })

    it('ends all connections of the former guest even if some have ended by themselves', async () => {
      for (let round = 0; round < 3; round += 1) {
        lab.tool(inA, 'flood', clientAddress, '12000')
        const others = ['--orig-src', '--reply-dst'].map((filter) =>
          spawn('ip', ['netns', 'exec', lab.host, 'sh', '-c', deleteAgain, filter, a.ipv4], {
            stdio: 'ignore',
          }),
        )
        const ended = others.map((child) => once(child, 'exit'))
        await pair.agent.call('detach', a)
        await attach(a)
        expect(flowsOf(a.ipv4)).to.equal('') // connections are removed before the address is used again
        await Promise.all(ended)
      }
    })
  })

  describe('if it was interrupted while it deleted connections', () => {
    it('deletes the remaining connections at the next comparison with the host', async () => {
      // The guest may still have too many open connections, so attempts can fail.
      await waitFor(() => lab.ask(inA, `udp:${clientAddress}:53`, { sport: 4445 }) !== '')
      const fresh = lab.agent()
      // The agent deletes guest A's entries in nft. It then fails to repair the bridge, because another interface has
      // the bridge's name.
      lab.in(lab.host, 'ip', 'link', 'set', 'berth0', 'down')
      lab.in(lab.host, 'ip', 'link', 'set', 'berth0', 'name', 'berth9')
      lab.in(lab.host, 'ip', 'link', 'add', 'berth0', 'type', 'veth', 'peer', 'name', 'berth1')
      try {
        const failed = await fresh.ensure([b]).catch((error: Error) => error.message)
        expect(failed).to.contain('is not a bridge')
      } finally {
        lab.in(lab.host, 'ip', 'link', 'delete', 'berth0')
        lab.in(lab.host, 'ip', 'link', 'set', 'berth9', 'name', 'berth0')
        lab.in(lab.host, 'ip', 'link', 'set', 'berth0', 'up')
      }
      expect(flowsOf(a.ipv4)).to.contain('sport=4445')
      await fresh.ensure([b])
      expect(flowsOf(a.ipv4)).to.equal('')
      await fresh.end()
    })
  })
})
