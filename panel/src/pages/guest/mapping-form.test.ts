import { expect } from 'chai'
import { emptyMapping, formOf, mappingChange, newMapping } from './mapping-form.ts'

const web = { protocol: 'tcp', container_port: 80, host_port: 20_080, description: 'web' } as const
const range = { ...web, container_port_end: 89, host_port_end: 20_089 }

describe('the form for a port mapping', () => {
  it('requests a single port, or a range whose length is the entered number of ports', () => {
    expect(newMapping({ ...emptyMapping, inner: 8080 })).to.deep.equal({
      protocol: 'tcp',
      container_port: 8080,
      host_port: 0,
      description: '',
    })
    expect(newMapping({ ...emptyMapping, inner: 8080, count: 10 })).to.include({
      host_port: 0,
      container_port_end: 8089,
    })
    expect(newMapping({ ...emptyMapping, inner: 80, outer: 20_080, count: 10 })).to.deep.include({
      container_port_end: 89,
      host_port_end: 20_089,
    })
  })

  for (const [name, before, change, body] of [
    ['no field if nothing changed', web, {}, {}],
    ['the guest port if it changed', web, { inner: 8080 }, { container_port: 8080 }],
    ['only the first port if a whole range moves', range, { inner: 90 }, { container_port: 90 }],
    [
      'the last ports of both ranges if the number of ports changed',
      web,
      { count: 10 },
      { container_port_end: 89, host_port_end: 20_089 },
    ],
    [
      'the last ports of both ranges if a range became a single port',
      range,
      { count: 1 },
      { container_port_end: 80, host_port_end: 20_080 },
    ],
    ['no host port if its field was cleared', web, { outer: null, note: 'www' }, { description: 'www' }],
  ] as const)
    it(`sends ${name}`, () => expect(mappingChange(before, { ...formOf(before), ...change })).to.deep.equal(body))
})
