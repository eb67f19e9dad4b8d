import { Type } from 'typebox'
import { usernamePattern } from '../../accounts/account-record.js'
import { maxContainers } from '../../sub-users/plan-sub-user.js'
import { subUserPermissions } from '../../access/sub-user-bounds.js'
import { networkLimits } from '../../../shared/network-limits.js'
import { containerRef, restricts, trimmed } from '../../http/normalize.js'
import { oneOf, TimeSchema, timeSchema } from '../../http/schema.js'
import { TemplateIdSchema } from '../guests/create/create-body.js'
import { ExpirySchema } from '../guests/setting-schemas.js'

const optional = Type.Optional
const ContainerRefSchema = Type.String({
  ...containerRef,
  maxLength: 64,
  description: 'Name, UUID or numeric id of a container.',
})

const terms = {
  container_names: optional(
    Type.Array(ContainerRefSchema, {
      ...restricts,
      maxItems: maxContainers,
      description:
        'Names, UUIDs or numeric ids of the containers of the sub-user. An empty list: the sub-user has no containers.',
    }),
  ),
  permissions: optional(
    Type.Array(oneOf(subUserPermissions), {
      ...restricts,
      maxItems: subUserPermissions.length,
      description:
        'Permissions of the sub-user for the assigned containers. Default for a new sub-user: every possible permission that the caller has. `container:network:inner` only allows changes of the container ports of port mappings.',
    }),
  ),
  allowed_image_ids: optional(
    Type.Array(TemplateIdSchema, {
      ...restricts,
      maxItems: 1000,
      description: 'Ids of the images that the sub-user can use for reinstalls. An empty list: no image.',
    }),
  ),
  image_limit_configured: optional(
    Type.Boolean({
      ...restricts,
      description:
        '`true`: the sub-user can only use the images in `allowed_image_ids` for reinstalls. `false`: the sub-user can use every enabled image.',
    }),
  ),
  port_mapping_limit: optional(
    Type.Integer({
      ...restricts,
      minimum: 0,
      maximum: networkLimits.port.max,
      description:
        'Maximum number of mapped host ports per container. The sub-user cannot add a mapping that would exceed it.',
    }),
  ),
  expires_at: optional({
    ...ExpirySchema,
    ...restricts,
    description:
      'Time after which the sub-user cannot log in: `YYYY-MM-DD HH:MM[:SS]`, RFC 3339, a date (the end of that day) or Unix seconds. Empty, `0` or `0000-00-00`: no such time.',
  }),
  disabled: optional(
    Type.Boolean({ ...restricts, description: '`true`: the sub-user cannot log in. Default: `false`.' }),
  ),
}

export const CreateSubUserSchema = Type.Object(
  {
    container_name: optional(
      Type.String({
        ...containerRef,
        maxLength: 64,
        description:
          'Name, UUID or numeric id of a single container of the sub-user. Ignored if `container_names` is sent.',
      }),
    ),
    username: optional(
      Type.String({
        ...trimmed,
        pattern: usernamePattern,
        description:
          'User name of the sub-user. If omitted, a name is generated. If the caller is bound to containers, a random suffix is appended to the name.',
      }),
    ),
    ...terms,
  },
  { title: 'NewSubUser' },
)

const containerRefs = (description: string) =>
  optional(Type.Array(ContainerRefSchema, { maxItems: maxContainers, description }))

export const ChangeSubUserSchema = Type.Object(
  {
    ...terms,
    add_container_names: containerRefs(
      `Names, UUIDs or numeric ids of containers to assign to the sub-user. It keeps its other containers. Simultaneous changes of several callers all apply. At most ${maxContainers} containers in total. Not possible together with \`container_names\`.`,
    ),
    remove_container_names: containerRefs(
      'Names, UUIDs or numeric ids of containers to remove from the sub-user. It keeps its other containers. Containers that the sub-user does not have are skipped. Not possible together with `container_names`, and a container cannot be in both lists.',
    ),
  },
  { title: 'SubUserChange' },
)

export const RotateSchema = Type.Object(
  {
    rotate_code: optional(
      Type.Boolean({ description: '`true`: also create a new access code. The old login link becomes invalid.' }),
    ),
  },
  { title: 'RotatePassword' },
)

const credentials = {
  username: Type.String(),
  password: Type.String({
    description:
      'Password of the sub-user, in plain text. It is returned only in this answer. Empty if the sub-user already existed.',
  }),
  access_code: Type.String({
    description: 'Access code in the login link `/u/CODE` of the sub-user. The page of the link asks for the password.',
  }),
  link: Type.String({
    description:
      'Complete login link of the sub-user. Empty: the public URL of the panel is not known, see `/public-url`.',
  }),
}

export const CreatedSubUserSchema = Type.Object(
  {
    id: Type.String(),
    ...credentials,
    container_names: Type.Array(Type.String()),
    created_at: TimeSchema,
    created: Type.Boolean({
      description: '`false`: the sub-user already existed and is unchanged; `password` is empty.',
    }),
  },
  { title: 'CreatedSubUser' },
)

export const RotatedSchema = Type.Object(credentials, { title: 'RotatedPassword' })

const words = (description: string) => Type.Array(Type.String(), { description })

export const SubUserRowSchema = Type.Object(
  {
    id: Type.String(),
    username: Type.String(),
    container_name: Type.String({ description: 'The first entry of `container_names`.' }),
    container_uuid: Type.String(),
    container_names: words('Current names of the containers of the sub-user.'),
    container_uuids: words('UUIDs of the containers, in the same order as `container_names`.'),
    access_code: credentials.access_code,
    link: credentials.link,
    permissions: Type.Array(oneOf(subUserPermissions)),
    allowed_image_ids: words(
      'Ids of the images that the sub-user can use for reinstalls, if `image_limit_configured` is `true`.',
    ),
    image_limit_configured: Type.Boolean(),
    current_image_ids: words('Ids of the images from which the containers of the sub-user were created.'),
    port_mapping_limit: Type.Integer(),
    created_at: TimeSchema,
    created_by: Type.String({ description: 'Caller that created the sub-user: `key:ID` or `admin:ID`.' }),
    last_login: timeSchema('the sub-user last logged in', 'it has never logged in'),
    last_login_ip: Type.String(),
    last_login_ua: Type.String(),
    expires_at: timeSchema('the access of the sub-user ends', 'it does not end'),
    disabled: Type.Boolean(),
  },
  { title: 'SubUser' },
)

export const SubUserPathSchema = Type.Object({
  id: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
})
