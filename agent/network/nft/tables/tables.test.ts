import { expect } from 'chai'
import { Nft } from '../../../host/net/nft.js'
import type { GuestNetwork } from '../../contract.js'
import { Tables } from './tables.js'

/** A fake nft that records commands. `readPart` always shows the two chains of one guest. */
class ToldNft extends Nft {
  told: string[] = []

  override apply(commands: readonly string[]): Promise<void> {
    return Promise.resolve(void this.told.push(...commands))
  }

  override readTable(): Promise<undefined> {
    return Promise.resolve(undefined)
  }

  override readPart(part: string): Promise<string> {
    this.told.push(`list ${part}`)
    return Promise.resolve(`table inet berth {\n\t${part.replace('inet berth ', '')} {\n\t\tdrop\n\t}\n}\n`)
  }
}

const guest: GuestNetwork = {
  uuid: 'u1',
  device: 'bt1',
  mac: '02:be:00:00:00:01',
  ipv4: '10.64.0.2',
  portMappings: [],
  publicIpv4s: [],
  ipv6Addresses: [],
}
const closed = { ...guest, firewall: { enabled: true, defaultAction: 'DROP', rules: [] } } as const

describe('the note of a firewall (a chain named after the hash of its rules)', () => {
  let nft: ToldNft
  let tables: Tables
  const attach = (wanted: GuestNetwork) => tables.change((index) => index.planAttach(wanted), [])
  const told = (): string[] => nft.told.splice(0)

  beforeEach(async () => {
    nft = new ToldNft()
    tables = new Tables(nft, {
      table: 'berth',
      bridge: 'berth0',
      interfacePrefix: 'bt',
      countInternal: false,
      closed: [],
      resolvers: [],
      subnet: '10.64.0.0/16',
      gateway: '10.64.0.1',
      subnet6: 'fd00::/64',
    })
    await attach(guest)
    told()
  })

  it('is created only by the first noteFirewalls() that runs after the firewall was set', async () => {
    await attach(closed)
    expect(told().filter((line) => /^list|note_/.test(line))).to.deep.equal([])
    await tables.noteFirewalls()
    const [first, second, note, ...more] = told()
    expect([first, second]).to.deep.equal(['list chain inet berth in_bt1', 'list chain inet berth out_bt1'])
    expect(note).to.match(/^add chain inet berth note_bt1_[0-9a-f]{32}$/)
    await tables.noteFirewalls()
    expect([...more, ...told()]).to.deep.equal([])
    await attach(guest)
    expect(told()).to.include(note!.replace('add', 'delete'))
  })

  it('is not created if the firewall was replaced or deleted before noteFirewalls() runs', async () => {
    await attach(closed)
    await attach(guest)
    expect(told().filter((line) => line.includes('note_'))).to.deep.equal([])
    await tables.noteFirewalls()
    await attach(closed)
    await tables.remove()
    told()
    await tables.noteFirewalls()
    expect(told()).to.deep.equal([])
  })
})
