// The floor for HTTP: Koa with its router, sending prepared bytes.
import Router from '@koa/router'
import Koa from 'koa'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const [directory, port] = process.argv.slice(2)
const list = readFileSync(join(directory, 'list.json'))
const detail = readFileSync(join(directory, 'detail.json'))

const app = new Koa()
const router = new Router()
const send = (body) => (context) => {
  context.type = 'application/json'
  context.body = body
}
router.get('/detail/:name', send(detail))
// Without a router: nothing but Koa itself.
app.use((context, next) => (context.path === '/list' ? send(list)(context) : next()))
app.use(router.routes())
app.listen(Number(port), '127.0.0.1')
