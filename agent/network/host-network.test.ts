import { expect } from 'chai'
import type { AddressBook, Rules, Shaper, WantedNetwork } from './contract.js'
import { HostNetwork } from './host-network.js'

describe('the host’s network (rules, addresses and rates)', () => {
  const guest: WantedNetwork = {
    uuid: 'u1',
    device: 'bt1',
    mac: '02:be:0a:40:00:02',
    ipv4: '10.64.0.2',
    portMappings: [],
    publicIpv4s: [],
    ipv6Addresses: [],
    downMbps: 10,
    upMbps: 0,
  }
  let calls: string[]
  let failing: string
  let network: HostNetwork

  /** Returns a fake part of the network that records its calls and reports one repair for each. */
  function part(name: string): never {
    const answer = (method: string) => (): Promise<string[]> => {
      calls.push(`${name} ${method}`)
      return failing === name ? Promise.reject(new Error(`no ${name}`)) : Promise.resolve([`${name} repaired`])
    }
    const listen = (listener: () => void): void => listener()
    return {
      attach: answer('attach'),
      detach: answer('detach'),
      ensure: answer('ensure'),
      apply: answer('apply'),
      remove: answer('remove'),
      close: answer('close'),
      onForeignChange: listen,
      onLinks: listen,
      warnings: [name],
    } as never
  }

  beforeEach(() => {
    calls = []
    failing = ''
    const [rules, addresses, shaper]: [Rules, AddressBook, Shaper] = [part('rules'), part('addresses'), part('rates')]
    network = new HostNetwork(rules, addresses, shaper)
  })

  const messageOf = (work: Promise<unknown>): Promise<string> => work.then(String, (error: Error) => error.message)

  it('gets the rules of a guest before its addresses, and loses the rules after the addresses', async () => {
    await network.attach(guest)
    await network.detach(guest)
    expect(calls).to.deep.equal([
      'rules attach',
      'addresses attach',
      'rates apply',
      'addresses detach',
      'rules detach',
      'rates remove',
    ])
  })

  it('disconnects a suspended guest even if the rules cannot be applied', async () => {
    failing = 'rules'
    expect(await messageOf(network.attach({ ...guest, cut: true }))).to.equal('no rules')
    expect(calls).to.deep.equal(['rates apply', 'rules attach'])
  })

  it('changes only in the requested parts (rules, addresses or rates)', async () => {
    await network.attach(guest, ['rates'])
    await network.attach(guest, ['addresses', 'rules'])
    await network.ensure([guest], ['rates'])
    expect(calls).to.deep.equal(['rates apply', 'rules attach', 'addresses attach', 'rates ensure'])
  })

  it('gets no addresses and rates if its rules cannot be applied', async () => {
    failing = 'rules'
    expect(await messageOf(network.attach(guest))).to.equal('no rules')
    expect(await messageOf(network.ensure([guest]))).to.equal('no rules')
    expect(calls).to.deep.equal(['rules attach', 'rules ensure'])
  })

  it('gets its rates repaired even if addresses cannot be set, and reports the repair at the next check', async () => {
    failing = 'addresses'
    expect(await messageOf(network.ensure([guest]))).to.equal('could not set the addresses and rates of guests')
    expect(calls).to.include('rates ensure')
    failing = ''
    expect(await network.ensure([guest], ['addresses'])).to.deep.equal([
      'rules repaired',
      'rates repaired',
      'addresses repaired',
    ])
  })

  it('reports all parts that other programs have changed, and the warnings of all parts', () => {
    const told: string[] = []
    network.onDisturbed((name) => told.push(name))
    expect(told).to.deep.equal(['rules', 'rates'])
    expect(network.warnings).to.deep.equal(['rules', 'addresses'])
  })
})
