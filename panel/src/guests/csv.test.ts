import { expect } from 'chai'
import type { Guest } from '../api/types.ts'
import { guestsAsCsv } from './csv.ts'

const guest = (fields: Partial<Guest>) =>
  ({ id: 7, name: 'web', public_ipv4s: [], ipv6_addresses: [], host_id: 'h-1', ...fields }) as Guest

describe('the CSV export of guests', () => {
  const cellsOf = (fields: Partial<Guest>): string =>
    guestsAsCsv([guest(fields)], (id) => `name of ${id}`).split('\r\n')[1] ?? ''

  it('has the fields of the API, and the name of the host', () => {
    const [head = '', row = ''] = guestsAsCsv([guest({})], () => 'fra1').split('\r\n')
    expect(head).to.match(/^id,uuid,name,.*,expires_at,host$/)
    expect(row).to.match(/^7,.*,web,.*,fra1$/)
  })
  it('quotes commas and quotation marks', () => expect(cellsOf({ name: 'a,"b"' })).to.include(',"a,""b""",'))
  it('prevents a spreadsheet from running a text as a formula', () =>
    expect(cellsOf({ owners: [{ id: '1', username: '=HYPERLINK("x")' }] })).to.include(`"'=HYPERLINK(""x"")"`))
  it('lists several addresses in one cell', () =>
    expect(cellsOf({ public_ipv4s: ['203.0.113.7', '203.0.113.8'] })).to.include(',203.0.113.7 203.0.113.8,'))
})
